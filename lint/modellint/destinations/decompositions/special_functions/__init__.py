"""Special functions, approximated in single precision."""
