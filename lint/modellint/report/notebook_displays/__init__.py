"""Displays of results in notebooks: HTML elements that need nothing else, on light pages and on dark ones."""
