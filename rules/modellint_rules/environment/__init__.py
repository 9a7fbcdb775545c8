"""Rules about what is installed beside the model: versions that do not go together."""
