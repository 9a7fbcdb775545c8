"""What a glance at the syntax of a class shows before it is read in earnest: the second gate of the rules that words wake too often.

Each sign answers "may there be such a thing?": no means no.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.rule import Trigger
from modellint.source.triggers.patterns.attribute_bindings import keeps_containers
from modellint.source.triggers.patterns.construction import builds, casts_parameters, makes_tensors, untracked
from modellint.source.triggers.patterns.inplace_writes import (
    assigns_attributes,
    assigns_items,
    changes_state,
    indexes,
    mixes,
    writes,
)
from modellint.source.triggers.patterns.numeric_range import long, tiny, wide
from modellint.source.triggers.patterns.project_calls import calls_project, imports_a_project
from modellint.source.triggers.patterns.return_values import returns_dict, returns_others
from modellint.source.triggers.patterns.tensor_rank import gets_wide, pins_sizes
from modellint.source.triggers.patterns.tensor_to_python import branches, loops, takes_numbers, uses_numpy

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

OF_FORWARD = frozenset(
    {
        Trigger.LITERAL_SIZES,
        Trigger.RETURNS_DICT,
        Trigger.RETURNS_NON_TENSOR,
        Trigger.SEVERAL_INDICES,
        Trigger.BUILDS_MODULE,
        Trigger.BRANCHES_ON_DATA,
        Trigger.TENSOR_TO_NUMBER,
        Trigger.USES_NUMPY,
        Trigger.LOOPS_OVER_DATA,
        Trigger.WRITES_IN_PLACE,
        Trigger.WRITES_BY_INDEX,
        Trigger.WRITES_ITEMS,
        Trigger.SETS_ATTRIBUTES,
        Trigger.CHANGES_STATE,
        Trigger.CHANGES_STATE_ANYWHERE,
    }
)
"""Signs of what ``forward`` runs."""
SIGNS = OF_FORWARD | {
    Trigger.MAKES_TENSORS,
    Trigger.NO_RUNNING_STATISTICS,
    Trigger.CASTS_PARAMETER,
    Trigger.CALLS_PROJECT,
    Trigger.KEEPS_CONTAINERS,
    Trigger.HIGH_RANK,
    Trigger.ABOVE_FLOAT16,
    Trigger.BELOW_FLOAT16,
    Trigger.OUTSIDE_INT32,
}


def shows(sign: str, file: IndexedFile, nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether classes and functions of a file, which may run each other, show a sign; ``run``: those that ``forward`` runs."""
    match sign:
        case Trigger.MAKES_TENSORS:
            return makes_tensors(file, nodes)
        case Trigger.CASTS_PARAMETER:
            return casts_parameters(file, nodes)
        case Trigger.CALLS_PROJECT:
            return calls_project(file, nodes)
        case Trigger.NO_RUNNING_STATISTICS:
            return untracked(file, nodes)
        case Trigger.BUILDS_MODULE:
            return builds(run)
        case Trigger.HIGH_RANK:
            return gets_wide(nodes)
        case Trigger.BRANCHES_ON_DATA:
            return branches(run)
        case Trigger.TENSOR_TO_NUMBER:
            return takes_numbers(run)
        case Trigger.USES_NUMPY:
            return uses_numpy(file, run)
        case Trigger.LOOPS_OVER_DATA:
            return loops(run)
        case Trigger.WRITES_IN_PLACE:
            return writes(run)
        case Trigger.WRITES_BY_INDEX:
            return indexes(run)
        case Trigger.WRITES_ITEMS:
            return assigns_items(run)
        case Trigger.SETS_ATTRIBUTES:
            return assigns_attributes(run)
        case Trigger.CHANGES_STATE:
            return changes_state(run)
        case Trigger.CHANGES_STATE_ANYWHERE:
            return bool(file.stars) or imports_a_project(file) or changes_state(run)
        case Trigger.KEEPS_CONTAINERS:
            return keeps_containers(file, nodes)
        case Trigger.ABOVE_FLOAT16:
            return wide(file, nodes, run)
        case Trigger.BELOW_FLOAT16:
            return tiny(file, nodes, run)
        case Trigger.OUTSIDE_INT32:
            return long(file, nodes, run)
        case Trigger.SEVERAL_INDICES:
            return mixes(run)
        case Trigger.RETURNS_DICT:
            return returns_dict(run)
        case Trigger.RETURNS_NON_TENSOR:
            return returns_others(run)
        case Trigger.LITERAL_SIZES:
            return pins_sizes(run)
    raise ValueError(sign)
