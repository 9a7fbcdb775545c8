"""What is mended in a copy of a model before it is converted: one module for each kind of fix."""
