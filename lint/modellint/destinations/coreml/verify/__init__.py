"""Verification: a converted program executed, and compared with PyTorch."""
