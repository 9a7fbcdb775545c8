"""Converters of layers: convolution, pooling, normalization, recurrent layers, resizing."""
