"""Rules about registration: modules, parameters and buffers that PyTorch does not know of."""
