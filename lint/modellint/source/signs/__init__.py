"""What a glance at the syntax of a class shows before it is read in earnest: the second gate of the rules that words wake too often.

Each sign answers "may there be such a thing?": no means no.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.signs.copies import writes_through
from modellint.source.signs.making import builds, makes_tensors
from modellint.source.signs.modes import calls_forward, drops
from modellint.source.signs.ranks import gets_wide
from modellint.source.signs.strides import may_move

if TYPE_CHECKING:
    from modellint.source.project import IndexedFile

MAKES = "<makes tensors>"
"""What builds the object may make a tensor."""
WIDE = "<wide>"
"""A tensor may get six dimensions."""
THROUGH = "<writes through>"
"""What may be a copy, of `reshape` and its kin, may be written to."""
BUILDS = "<builds>"
"""A function other than ``__init__`` may build a module with state."""
DROPS = "<drops>"
"""A functional dropout may be on whatever the mode."""
FORWARDS = "<forwards>"
"""The `forward` of another object may be called by name."""
MOVES = "<moves>"
"""A `view` may be asked of what a permutation gave."""
SIGNS = frozenset({MAKES, WIDE, THROUGH, BUILDS, DROPS, FORWARDS, MOVES})


def shows(sign: str, file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether classes and functions of a file, which may run each other, show a sign."""
    if sign == MAKES:
        return makes_tensors(file, nodes)
    if sign == BUILDS:
        return builds(nodes)
    if sign == MOVES:
        return may_move(nodes)
    if sign == DROPS:
        return drops(file, nodes)
    if sign == FORWARDS:
        return calls_forward(nodes)
    return gets_wide(nodes) if sign == WIDE else writes_through(nodes)
