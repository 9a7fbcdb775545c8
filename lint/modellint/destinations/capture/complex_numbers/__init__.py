"""Complex numbers as pairs of real ones, while a model is captured."""
