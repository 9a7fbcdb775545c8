"""Untaken branches: what a model does where truth values of its inputs are others than the example's.

A capture holds the way that the example takes. Often that is a short cut (`if not mask.any(): mask = None`), and the other way holds for
all inputs: it is the one that is captured, where it gives the same on the example.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

from torch import nn

from modellint.destinations.capture.constant_scalars import Visit, Visits, is_asserted

NOTE = (
    "a branch that values of inputs decide (FLW001) goes the way that the example does not, as both give the same there"
)
_MOST = 8
"""How many branches are tried: each costs a run."""
_DECIDING = ("__bool__", "is_nonzero", "item", "__contains__", "equal", "allclose")


class _Deciding(Visits):
    """Mode that notes the truth values that a run takes out of tensors, and answers some of them itself."""

    def __init__(self, branches: Mapping[Visit, bool]) -> None:
        super().__init__()
        self._branches = branches
        self.seen: dict[Visit, bool] = {}

    def called(self, visit: Visit, function: Any, args: Any, kwargs: Any) -> Any:
        if visit in self._branches:
            return self._branches[visit]
        value = function(*args, **kwargs)
        if visit.function in _DECIDING and type(value) is bool and not is_asserted(sys._getframe(1)):
            self.seen[visit] = value
        return value


@contextmanager
def turned(model: nn.Module, branches: Mapping[Visit, bool]) -> Iterator[dict[Visit, bool]]:
    """Scope in which these branches of a model go as is said; yields the truth values that other branches were decided by."""
    forward, own = model.forward, vars(model).get("forward")
    seen: dict[Visit, bool] = {}

    @wraps(forward)
    def deciding(*args: Any, **kwargs: Any) -> Any:
        # Entered in here, as a capture's own modes are asked before those around them.
        with _Deciding(branches) as mode:
            outputs = forward(*args, **kwargs)
        seen.update(mode.seen)
        return outputs

    # That of a method which stands in the class's place holds the model itself, too.
    deciding.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    vars(model)["forward"] = deciding
    try:
        yield seen
    finally:
        if own is None:
            del vars(model)["forward"]
        else:
            vars(model)["forward"] = own


def needless(
    seen: Mapping[Visit, bool], outputs_with: Callable[[Mapping[Visit, bool]], Any], is_same: Callable[[Any], bool]
) -> dict[Visit, bool]:
    """Of the branches of a run those that may go the other way, as the outputs are the same, and that way."""
    found: dict[Visit, bool] = {}
    for visit, answer in [*seen.items()][:_MOST]:
        tried = {**found, visit: not answer}
        # An assertion fails, or what stands there cannot be computed for this example.
        with suppress(Exception):
            if is_same(outputs_with(tried)):
                found = tried
    return found
