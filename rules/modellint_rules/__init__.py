"""What is known about PyTorch models on their way to Core ML: one rule, one file."""
