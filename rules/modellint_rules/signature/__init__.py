"""Rules about a model's signature: its inputs and outputs."""
