"""Converters of linear algebra and Fourier transforms."""
