"""Default arguments: what values are where whoever builds an object leaves arguments of its constructor out."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import Argument, Instance, alternatives, union
from modellint.source.facts.call_graph import called_on_self
from modellint.source.project.container_attribute_uses import class_functions
from modellint.source.syntax.ast_walk import of_kind

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Function, Value
    from modellint.source.project.symbols import ClassRef


class ConstructorDefaults:
    """The arguments of a class's own constructor that have defaults; of what stands in no class there are none."""

    def __init__(self, ref: ClassRef | None, methods: Sequence[Function]) -> None:
        self._ref = ref
        self._methods = methods

    def by_default(self, value: Value) -> tuple[Value, frozenset[str]]:
        """What a value is if the constructor's arguments have their defaults, and which arguments those are; none where it needs none."""
        parts = alternatives(value)
        names = frozenset(name for part in parts if (name := self._is_of_argument(part)) is not None)
        if not names or len(parts) == 1:
            return value, frozenset()
        rest = union(part for part in parts if self._is_of_argument(part) is None)
        return (rest, names) if not rest.is_unseen else (value, frozenset())

    def _is_of_argument(self, value: Value) -> str | None:
        """The argument of the constructor that a value is, or that it is an object made by."""
        if isinstance(value, Argument) and not value.element:
            return value.name if value.name in self._names else None
        if isinstance(value, Instance) and value.kind == "unresolved" and isinstance(value.node, ast.Call):
            func = value.node.func
            return value.name if isinstance(func, ast.Name) and func.id == value.name in self._names else None
        return None

    @cached_property
    def _names(self) -> frozenset[str]:
        """The arguments with defaults of the class's own constructor, but for those of methods that are read for themselves."""
        own = {node.name: node for node in class_functions(self._ref.node)} if self._ref is not None else {}
        init = own.pop("__init__", None)
        if init is None:
            return frozenset()
        placed = [*init.args.posonlyargs, *init.args.args]
        names = {part.arg for part in placed[len(placed) - len(init.args.defaults) :]}
        names.update(
            part.arg
            for part, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
            if default is not None
        )
        called = called_on_self(self._methods)
        others = (part.arg for name, node in own.items() if name not in called for part in of_kind(node, ast.arg))
        return frozenset(names.difference(others))
