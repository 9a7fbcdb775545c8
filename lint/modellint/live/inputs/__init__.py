"""Example inputs of a model, and others made from them."""
