"""Source text to facts to findings, without importing torch or the user's code."""
