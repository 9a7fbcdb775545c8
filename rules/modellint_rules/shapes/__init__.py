"""Rules about rank, shape and memory layout."""
