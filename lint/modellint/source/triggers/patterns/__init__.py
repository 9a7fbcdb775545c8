"""What a glance at the syntax of a class shows before it is read in earnest: the second gate of the rules that words wake too often.

Each sign answers "may there be such a thing?": no means no.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.triggers.patterns.construction import builds, casts_parameters, makes_tensors
from modellint.source.triggers.patterns.copying_operators import writes_through
from modellint.source.triggers.patterns.inplace_writes import (
    assigns_attributes,
    assigns_items,
    changes_input,
    indexes,
    mixes,
    shares,
)
from modellint.source.triggers.patterns.numeric_range import long, tiny, wide
from modellint.source.triggers.patterns.return_values import returns_dict, returns_others
from modellint.source.triggers.patterns.tensor_rank import gets_wide, pins_sizes
from modellint.source.triggers.patterns.tensor_to_python import branches, loops, takes_numbers, uses_numpy
from modellint.source.triggers.patterns.training_modes import calls_forward, drops, untracked
from modellint.source.triggers.patterns.views_of_permutations import may_move

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

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
BRANCHES = "<branches on data>"
"""A condition may depend on the values of a tensor."""
NUMBERS = "<takes numbers>"
"""Python may take a number out of a tensor."""
NUMPY = "<uses numpy>"
"""NumPy may work on what the caller gives."""
LOOPS = "<loops over data>"
"""A loop may be as long as a tensor."""
SHARES = "<writes to shared memory>"
"""What is written to may be held by another variable as a view."""
CHANGES_INPUT = "<changes its input>"
"""An argument of ``forward`` may be written to."""
INDEXED = "<assigns by indices>"
"""An item may be assigned to by a tensor of indices or truths."""
ITEMS = "<assigns items>"
"""An item may be assigned to."""
ASSIGNS = "<sets attributes>"
"""``forward`` may set attributes of the object."""
WIDE_NUMBERS = "<numbers beyond float16>"
"""A number may be written down that float16 does not hold."""
TINY_NUMBERS = "<numbers below float16>"
"""A positive number may be written down that is smaller than any of float16."""
LONG_NUMBERS = "<numbers outside int32>"
"""A whole number may be written down that int32 does not hold."""
RETURNS_DICT = "<returns a dict>"
"""What `forward` runs may return a dict."""
RETURNS_OTHERS = "<returns no tensor>"
"""``forward`` may return something that is no tensor."""
FIXED_SIZES = "<sizes written down>"
"""A tensor may be reshaped to sizes that are all numbers."""
MIXED = "<several indices>"
"""Something may be indexed by two tensors at once."""
CASTS = "<casts parameters>"
"""A new parameter may be computed with where it is made."""
UNTRACKED = "<keeps no statistics>"
"""A batch normalization may be told to keep no running statistics."""
OF_FORWARD = frozenset(
    {
        FIXED_SIZES,
        RETURNS_DICT,
        RETURNS_OTHERS,
        MIXED,
        BUILDS,
        BRANCHES,
        NUMBERS,
        NUMPY,
        LOOPS,
        SHARES,
        CHANGES_INPUT,
        INDEXED,
        ITEMS,
        ASSIGNS,
    }
)
"""Signs of what ``forward`` runs."""
SIGNS = OF_FORWARD | {
    MAKES,
    WIDE,
    THROUGH,
    DROPS,
    FORWARDS,
    MOVES,
    WIDE_NUMBERS,
    TINY_NUMBERS,
    LONG_NUMBERS,
    CASTS,
    UNTRACKED,
}


def shows(sign: str, file: IndexedFile, nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether classes and functions of a file, which may run each other, show a sign; ``run``: those that ``forward`` runs."""
    match sign:
        case "<makes tensors>":
            return makes_tensors(file, nodes)
        case "<casts parameters>":
            return casts_parameters(file, nodes)
        case "<keeps no statistics>":
            return untracked(file, nodes)
        case "<builds>":
            return builds(run)
        case "<moves>":
            return may_move(nodes)
        case "<drops>":
            return drops(file, nodes)
        case "<forwards>":
            return calls_forward(nodes)
        case "<wide>":
            return gets_wide(nodes)
        case "<writes through>":
            return writes_through(nodes)
        case "<branches on data>":
            return branches(run)
        case "<takes numbers>":
            return takes_numbers(run)
        case "<uses numpy>":
            return uses_numpy(file, run)
        case "<loops over data>":
            return loops(run)
        case "<writes to shared memory>":
            return shares(nodes, run)
        case "<changes its input>":
            return changes_input(nodes, run)
        case "<assigns by indices>":
            return indexes(run)
        case "<assigns items>":
            return assigns_items(run)
        case "<sets attributes>":
            return assigns_attributes(run)
        case "<numbers beyond float16>":
            return wide(file, nodes, run)
        case "<numbers below float16>":
            return tiny(file, nodes, run)
        case "<numbers outside int32>":
            return long(file, nodes, run)
        case "<several indices>":
            return mixes(run)
        case "<returns a dict>":
            return returns_dict(run)
        case "<returns no tensor>":
            return returns_others(run)
        case "<sizes written down>":
            return pins_sizes(run)
    raise ValueError(sign)
