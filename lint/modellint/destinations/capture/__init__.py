"""Capture of models by torch.export, and the user's statements that its nodes come from, for every destination."""
