"""Converters of functions of each element: elementwise, logic, special functions, losses."""
