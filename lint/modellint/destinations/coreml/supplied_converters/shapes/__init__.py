"""Converters of shapes, reductions, and tensors of more than five dimensions."""
