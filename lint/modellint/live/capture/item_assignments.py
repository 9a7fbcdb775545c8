"""Item assignments of a run, `y[i] = v`: what is indexed by slices, numbers, masks and tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.live.capture.data_dependence import is_input
from modellint.live.capture.records import TensorFact

if TYPE_CHECKING:
    from modellint.live.capture.records import Call, Run


class ItemAssignment(NamedTuple):
    """One call of `Tensor.__setitem__`."""

    call: Call
    target: TensorFact
    indices: tuple[Any, ...]
    """What stands in the brackets."""

    @property
    def masks(self) -> tuple[TensorFact, ...]:
        """The boolean masks among the indices."""
        return tuple(part for part in self.indices if isinstance(part, TensorFact) and _is_mask(part))

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The tensors and lists of whole numbers among the indices; a tensor without dimensions is a number."""
        return tuple(
            part
            for part in self.indices
            if isinstance(part, list) or (isinstance(part, TensorFact) and part.rank and not _is_mask(part))
        )

    @property
    def are_broadcast(self) -> bool:
        """Whether tensors among the indices are of different shapes."""
        return len({part.shape for part in self.tensors if isinstance(part, TensorFact)}) > 1

    @property
    def is_mixed(self) -> bool:
        """Whether there is something beside tensors and lists: a slice, a number, `None`, or an ellipsis that stands for something."""
        others = [part for part in self.indices if part not in self.masks and part not in self.tensors]
        return any(part is not ... or self.dots > 0 for part in others)

    @property
    def stands_behind(self) -> str:
        """What stands before the last tensor or list: `an ellipsis` that stands for something, `a slice` (or `None`), or nothing.

        Behind an ellipsis it is told whether there is another index than tensors, too.
        """
        many = [at for at, part in enumerate(self.indices) if part in self.masks or part in self.tensors]
        before = self.indices[: many[-1]] if many else ()
        if self.dots > 0 and any(part is ... for part in before):
            others = [part for part in self.indices if part is not ... and part not in self.masks + self.tensors]
            return "an ellipsis and beside another index" if others else "an ellipsis"
        return "a slice" if any(part is None or isinstance(part, slice) for part in before) else ""

    @property
    def dots(self) -> int:
        """How many dimensions an ellipsis stands for."""
        taken = sum(
            part.rank if isinstance(part, TensorFact) and _is_mask(part) else part is not None
            for part in self.indices
            if part is not ...
        )
        return max(0, self.target.rank - taken)

    @property
    def is_behind_dots(self) -> bool:
        """Whether a slice or a number stands behind an ellipsis that stands for something."""
        if ... not in self.indices or not self.dots:
            return False
        behind = self.indices[self.indices.index(...) + 1 :]
        return any(part is not None and part != slice(None) for part in behind)


def item_assignments(run: Run) -> Iterator[ItemAssignment]:
    """Every assignment to a part of a tensor that is none of the model's own state."""
    for call in run.calls:
        if call.name != "torch.Tensor.__setitem__" or len(call.arguments) < 2:
            continue
        target, index = call.arguments[:2]
        if isinstance(target, TensorFact) and (target.name is None or is_input(target)):
            # A fact is a tuple itself.
            parts = index if isinstance(index, tuple) and not isinstance(index, TensorFact) else (index,)
            yield ItemAssignment(call, target, parts)


def _is_mask(fact: TensorFact) -> bool:
    return fact.dtype in ("bool", "uint8") and fact.rank > 0
