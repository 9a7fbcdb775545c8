"""Rules about tensors that are changed in place, and state that changes during a run."""
