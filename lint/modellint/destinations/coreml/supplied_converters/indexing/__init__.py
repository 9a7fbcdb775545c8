"""Converters that gather, scatter, mask and count elements."""
