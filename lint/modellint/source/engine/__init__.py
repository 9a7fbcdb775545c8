"""The abstract interpreter: values, state, statements, expressions and calls."""
