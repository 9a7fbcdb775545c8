"""Triggers: cheap looks at words and syntax that tell which rules a file or class wakes."""
