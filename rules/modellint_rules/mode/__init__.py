"""Rules about training and evaluation mode, and what hooks into a module."""
