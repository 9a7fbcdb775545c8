"""Abstract domains of tensors: rank, layout, type, device, and transfer functions of operators."""
