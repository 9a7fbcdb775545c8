"""All that knows coremltools."""
