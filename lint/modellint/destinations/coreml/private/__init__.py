"""coremltools' private names: nothing outside of this package uses them."""
