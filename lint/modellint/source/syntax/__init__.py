"""Syntax: text, parsing, comments and suppressions, edits and rewriting."""
