"""Conversion by coremltools, and the export of a package that is verified."""
