"""Matrices: products, distances, systems and factorizations, unrolled."""
