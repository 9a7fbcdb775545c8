"""Packed sequences of several lengths that are known before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modellint.destinations.coreml.private.operator_tables import mb
from modellint.destinations.coreml.supplied_converters.registration import builds

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


@builds("_pack_padded_sequence")
def pack_padded_sequence(x: Tensor, lengths: list[int], batch_first: bool = False) -> Any:
    """Packed sequence: the steps of all sequences by time, and the batch size at each time."""
    if batch_first:
        x = mb.transpose(x=x, perm=[1, 0, *range(2, len(x.shape))])
    width = int(x.shape[1])
    counts = [sum(length > time for length in lengths) for time in range(lengths[0])]
    places = [time * width + at for time, count in enumerate(counts) for at in range(count)]
    flat = mb.reshape(x=x, shape=[-1, *(int(size) for size in x.shape[2:])])
    return mb.gather(x=flat, indices=np.array(places, np.int32), axis=0), mb.const(val=np.array(counts, np.int32))
