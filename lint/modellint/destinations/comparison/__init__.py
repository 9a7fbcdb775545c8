"""Comparison of a converted program with PyTorch, for every destination: reference runs, error measures, tolerances, the judgement."""
