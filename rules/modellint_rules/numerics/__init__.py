"""Rules about numbers that Core ML cannot hold."""
