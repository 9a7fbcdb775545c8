"""Converters of element-wise functions: arithmetic, logic, special functions, losses."""
