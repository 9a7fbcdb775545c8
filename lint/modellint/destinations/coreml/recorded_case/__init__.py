"""Recorded case: inputs, PyTorch's outputs, and what a Mac predicted for them."""
