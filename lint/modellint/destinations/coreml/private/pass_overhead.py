"""Pass overhead: what coremltools does again after every one of its 70 passes, done once for some of them.

Measured on EfficientNetV2-S: of a conversion's CPU time the consistency checks are 0.4, and the marks of compressed
weights 0.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from modellint.destinations.coreml.private.installed_capabilities import lacks

_COMPRESSED = "constexpr_"


@contextmanager
def lean_passes() -> Iterator[None]:
    """Check a program after dead code elimination only, and mark compressed weights only in a program that has some.

    The results of passes do not depend on either: the checks change nothing, and there are no marks without such weights. The
    last check of all, before a program is written, is one of those that stay. To be entered by one thread at a time.
    """
    if lacks("speed"):
        yield
        return
    from coremltools.converters.mil.mil import Block, Program

    validate: Any = Program.validate
    mark: Any = getattr(Block, "_propagate_nonreplaceable_vars", None)
    has_compressed = False

    def validated(program: Any, check_essential_scope: bool | None = False) -> None:
        if check_essential_scope:
            validate(program, check_essential_scope=check_essential_scope)

    def marked(block: Any) -> None:
        nonlocal has_compressed
        # Marks are taken back by the same code, so that it goes on once there were some.
        has_compressed = has_compressed or _has_compressed(block)
        if has_compressed:
            mark(block)

    patched: Any = Block
    checked: Any = Program
    checked.validate = validated
    if mark is not None:
        patched._propagate_nonreplaceable_vars = marked
    try:
        yield
    finally:
        checked.validate = validate
        if mark is not None:
            patched._propagate_nonreplaceable_vars = mark


def _has_compressed(block: Any) -> bool:
    return any(
        operation.op_type.startswith(_COMPRESSED) or any(_has_compressed(inner) for inner in operation.blocks)
        for operation in block.operations
    )
