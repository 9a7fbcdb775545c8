"""Uses of PyTorch's API that coremltools refuses for their arguments: the table, and the question whether one is meant."""
