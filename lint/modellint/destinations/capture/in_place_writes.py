"""In-place writes of an exported program that is not functional yet."""

from __future__ import annotations

from typing import Any

from torch._ops import HigherOrderOperator


def is_written(node: Any) -> bool:
    """Whether a tensor, or a view of it, is written in place, or may be by a program within the program."""
    for user in node.users:
        if isinstance(user.target, HigherOrderOperator):
            return True
        schema = getattr(user.target, "_schema", None)
        if schema is None or all(argument.alias_info is None for argument in schema.arguments):
            continue
        if schema.is_mutable or is_written(user):
            return True
    return False
