"""Route by which models come to Core AI."""

ROUTE = "export"
"""`torch.export` is the one that there is."""
