"""Interpreter of ML Programs on torch tensors, without Core ML: MIL's semantics as coremltools documents and tests them."""
