"""Saved packages: their files, their interface, and predictions with them."""
