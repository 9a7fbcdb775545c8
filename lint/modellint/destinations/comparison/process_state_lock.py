"""Process lock: one thread at a time changes what belongs to the whole process."""

import threading

TURN = threading.RLock()
"""Held while coremltools' tables, PyTorch's switches, the warnings' filters or the standard streams are not as they were.

Two threads that each put back what they found would leave what the other had set.
"""
