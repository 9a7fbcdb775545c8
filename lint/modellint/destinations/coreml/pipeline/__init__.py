"""Pipelines for Core ML: packages of several stages, executed here in the place of PyTorch's modules."""
