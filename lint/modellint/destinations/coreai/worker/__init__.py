"""Core AI's converter process: what runs in the process that imports coreai-torch."""
