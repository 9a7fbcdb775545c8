"""Path of inference: what the `forward` of an exported model reaches, and findings about what it does not."""
