"""Fixes of live models: one module for each kind of change to a copy before it is converted, and how they are proven."""
