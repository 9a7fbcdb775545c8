"""Sessions about pipelines: their stages exported one after another, and the chain of all compared."""
