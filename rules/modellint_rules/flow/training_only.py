"""What nobody exports, and what is only said: what the rules about `forward` share."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.source.code import Code
    from modellint.source.records import Call

TALK = frozenset(
    {"warn", "warning", "info", "debug", "error", "print", "log", "exception", "warning_once", "warn_once"}
)
"""Functions that only say something."""

_TRAINING = re.compile(
    r"Loss(?!y|less)|Criteri|HungarianMatcher|Assigner|Metric|Penalty|Regulari[sz]|Evaluator|Augment|Mixup|Miner|BeamSearch|Searcher|(?:^|_)(?:loss|metric)"
)
"""Names of classes that compute what a model is trained or judged by, or that search with one that is exported."""


def is_for_training(code: Code) -> bool:
    """Whether a class, by its name or those of its bases, is no part of what is exported: a loss, a metric, a matcher, a search."""
    return any(_TRAINING.search(ref.node.name) for ref in code.lineage)


def is_talk(call: Call) -> bool:
    """Whether a call stands in what is only printed or raised."""
    match call.statement:
        case ast.Raise() | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return name in TALK
    return False
