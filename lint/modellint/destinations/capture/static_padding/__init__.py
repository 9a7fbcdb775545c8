"""Static padding: sizes that are values of a run become their bounds."""
