"""Capture: a model as coremltools takes it, and the captured program run in PyTorch."""
