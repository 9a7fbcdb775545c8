"""Garbage collection, kept from disturbing while a model is looked at."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let the collector go through those objects only that come into being inside of the block.

    A process that has imported PyTorch and built a model holds millions of objects; a run makes so many more that the
    collector would go through all of them again and again.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
