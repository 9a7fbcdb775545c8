"""Rules about what a model takes and gives."""
