"""The rows of a sweep for people: a summary in a terminal, a static site, a badge, and what changed since another sweep."""
