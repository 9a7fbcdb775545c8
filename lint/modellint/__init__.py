"""Pre-export linter."""

__version__ = "0.1.0"
