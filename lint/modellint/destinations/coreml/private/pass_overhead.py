"""Overhead of coremltools: what it does again after every one of its 70 passes, or again and again of the same types, done once.

Measured of a conversion's CPU time: on EfficientNetV2-S 0.4 for the consistency checks and 0.13 for the marks of compressed weights;
on CoaT-Tiny 0.13 for programs in words that nobody logs, and 0.2 for descriptions of types.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from modellint.destinations.coreml.private.entry_points import replaced
from modellint.destinations.coreml.private.installed_capabilities import lacks

_COMPRESSED = "constexpr_"


@contextmanager
def remembered_types() -> Iterator[None]:
    """Describe each type once: coremltools asks for the description of the same classes by the million."""
    if lacks("speed"):
        yield
        return
    from coremltools.converters.mil.mil.types import type_mapping

    described: Any = type_mapping.get_type_info
    known: dict[type, Any] = {}

    def remembered(kind: Any) -> Any:
        if not isinstance(kind, type):
            return described(kind)
        if kind not in known:
            known[kind] = described(kind)
        return known[kind]

    with replaced(type_mapping, "get_type_info", remembered):
        yield


@contextmanager
def lean_passes() -> Iterator[None]:
    """Check a program behind its passes only, put none in words, and mark compressed weights only in a program that has some.

    The results of passes do not depend on these: the checks change nothing, and there are no marks without such weights. The checks
    of the front end's program, and of the last one before it is written, stay. To be entered by one thread at a time.
    """
    if lacks("speed"):
        yield
        return
    from coremltools.converters.mil.mil import Block, Function, Program
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager

    validate: Any = Program.validate
    apply: Any = PassPipelineManager.apply_pipeline
    mark: Any = getattr(Block, "_propagate_nonreplaceable_vars", None)
    is_passing = has_compressed = False

    def validated(program: Any, check_essential_scope: bool | None = False) -> None:
        if check_essential_scope and not is_passing:
            validate(program, check_essential_scope=check_essential_scope)

    def applied(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_passing
        is_passing = True
        try:
            return apply(*args, **kwargs)
        finally:
            is_passing = False

    def marked(block: Any) -> None:
        nonlocal has_compressed
        # Marks are taken back by the same code, so that it goes on once there were some.
        has_compressed = has_compressed or _has_compressed(block)
        if has_compressed:
            mark(block)

    with ExitStack() as stack:
        stack.enter_context(remembered_types())
        stack.enter_context(replaced(Program, "validate", validated))
        stack.enter_context(replaced(Program, "__str__", lambda program: "a program"))
        stack.enter_context(replaced(Function, "__str__", lambda function: "a function"))
        stack.enter_context(replaced(PassPipelineManager, "apply_pipeline", staticmethod(applied)))
        if mark is not None:
            stack.enter_context(replaced(Block, "_propagate_nonreplaceable_vars", marked))
        yield


def _has_compressed(block: Any) -> bool:
    # Asked hundreds of times of thousands of operations.
    for operation in block.operations:
        if operation.op_type.startswith(_COMPRESSED) or (
            operation.blocks and any(map(_has_compressed, operation.blocks))
        ):
            return True
    return False
