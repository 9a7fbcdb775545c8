"""The source code of live objects: places, classes, and what methods do with attributes."""
