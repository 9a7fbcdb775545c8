"""Core AI as a destination: everything that knows coreai-torch and its runtime."""
