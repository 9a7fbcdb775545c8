"""Captured runs of a live model: operators, calls, writes, and where values come from."""
