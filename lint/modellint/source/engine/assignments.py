"""Assignments: what binding a target does to variables, to items of containers, and to the attributes of ``self``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import (
    UNKNOWN,
    Container,
    Function,
    Instance,
    Method,
    SelfValue,
    Value,
    alternatives,
    leaves,
    union,
)
from modellint.source.engine.calls import Caller
from modellint.source.engine.class_state import Binding, Frame, Initialisation, escape
from modellint.source.syntax.ast_walk import is_property
from modellint.source.syntax.computed_names import is_numbered

if TYPE_CHECKING:
    from modellint.source.engine.domain import Domain, Observer
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef


class Assigner(Caller):
    """Binds what it reads."""

    def __init__(self, project: Project, cls: ClassRef | None, domain: Domain, recorder: Observer) -> None:
        super().__init__(project, cls, domain, recorder)
        self.initialisation = Initialisation()
        self._in_own_init = False
        self._own_setattr = any("__setattr__" in names for names in self._class_names)
        self._bound: set[str] = set()
        """The attributes that were bound in the method that is read."""

    # Statements

    def _assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.value(node.value, frame)
        for target in node.targets:
            self.bind(target, value, frame, node.value)

    def _annotated(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            value = self.value(node.value, frame)
            self.bind(node.target, value, frame, node.value, "annotated")

    def _augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        current = self.value(node.target, frame)
        added = self.value(node.value, frame)
        if self._has_tensor(current):
            self.recorder.wrote(self, "augmented", node, current, added, None, frame)
            if isinstance(node.target, ast.Attribute) and isinstance(self.value(node.target.value, frame), SelfValue):
                return
            if not isinstance(node.target, ast.Subscript):
                self.bind(node.target, self.combine(node, current, added), frame, node.value, "augmented")
            return
        boxes = [part for part in alternatives(current) if isinstance(part, Container)]
        if boxes and isinstance(node.op, (ast.Add, ast.BitOr)) and boxes[0].kind != "tuple":
            if any(isinstance(part, Instance) for part in alternatives(current)):
                escape(added)
            for box in boxes:
                if box.kind == "dict":
                    self._merge(box, added)
                self.fill(box, "+=", self.element_of(added), node, frame)
            return
        modules = [part for part in alternatives(current) if isinstance(part, Instance) and part.kind == "module"]
        if modules:
            for module in modules:
                module.held.extend(leaves(added))
            return
        self.bind(node.target, self.combine(node, current, added), frame, node.value, "augmented")

    def _has_tensor(self, value: Value) -> bool:
        return any(isinstance(part, self.domain.tensor) for part in alternatives(value))

    def bind(
        self, target: ast.expr, value: Value, frame: Frame, expression: ast.expr | None = None, form: str = "assign"
    ) -> None:
        """Assign ``value`` to a target."""
        match target:
            case ast.Name(id=name):
                if self.reading:
                    value = self.domain.named(self, value)
                    self.recorder.named(name, value, frame)
                frame.locals[name] = value
            case ast.Attribute(attr=name):
                self._bind_attribute(self.value(target.value, frame), name, value, form, frame, expression)
            case ast.Subscript():
                self._bind_item(target, value, frame)
            case ast.Tuple() | ast.List():
                self._unpack(target, value, frame)
            case ast.Starred():
                self.bind(target.value, Container("list", target, [self.element_of(value)]), frame)
            case _:
                pass

    def _bind_attribute(
        self, receiver: Value, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None
    ) -> None:
        if name == "data" and frame.statement is not None and self._has_tensor(receiver):
            self.recorder.wrote(self, "data", frame.statement, receiver, value, None, frame)
        for part in alternatives(receiver):
            if isinstance(part, SelfValue):
                self.set_attribute(name, value, form, frame, expression)
            elif isinstance(part, Instance):
                part.held.extend(leaves(value))
                if part.kind != "module":
                    escape(value)
            elif self.allow_escape:
                escape(value)

    def _bind_item(self, target: ast.Subscript, value: Value, frame: Frame) -> None:
        receiver = self.value(target.value, frame)
        if self._has_tensor(receiver):
            self.recorder.wrote(self, "item", target, receiver, value, None, frame)
            return
        if self.reading and isinstance(target.slice, (ast.Compare, ast.UnaryOp, ast.Name, ast.BinOp)):
            plain = (Value, self.domain.opaque, Instance)
            if self.value(target.slice, frame).is_tensor and all(
                type(part) in plain for part in alternatives(receiver)
            ):
                # What a tensor is an index of is one.
                self.recorder.wrote(self, "item", target, receiver, value, None, frame)
        key = self.value(target.slice, frame) if not isinstance(target.slice, ast.Slice) else UNKNOWN
        parts = alternatives(receiver)
        if any(not isinstance(part, Container) for part in parts):
            # Of `{} if flag else nn.ModuleDict()` only one registers; which it is cannot be told here.
            for part in parts:
                if isinstance(part, Instance):
                    part.held.extend(leaves(value))
            if self.allow_escape or any(isinstance(part, (Instance, Method)) for part in parts):
                escape(value)
        for part in parts:
            if isinstance(part, Container):
                if isinstance(target.slice, ast.Slice):
                    value = self.element_of(value)
                if part.kind == "dict":
                    part.keys.append(key)
                self.fill(part, "item", value, target, frame)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> None:
        if self.domain.unpack(self, target, value, frame):
            return
        exact = [
            part
            for part in alternatives(value)
            if isinstance(part, Container) and part.exact and len(part.items) == len(target.elts)
        ]
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        if exact and not starred and len(exact) == len(alternatives(value)):
            for index, element in enumerate(target.elts):
                self.bind(element, union([part.items[index] for part in exact]), frame)
            return
        element_value = self.element_of(value)
        for element in target.elts:
            if isinstance(element, ast.Starred):
                self.bind(element.value, Container("list", element, [element_value]), frame)
            else:
                self.bind(element, element_value, frame)

    def set_attribute(
        self, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None = None
    ) -> None:
        """Bind an attribute of ``self``; a registered buffer stays one when a tensor is assigned to it."""
        if frame.statement is None:
            return
        if self.reading:
            before = self.attributes.get(name, ())
            old = union([binding.value for binding in before]) if before else UNKNOWN
            self.recorder.wrote(self, "attribute", frame.statement, old, value, name, frame)
            if any(isinstance(part, self.domain.tensor) and part.kind == "buffer" for part in alternatives(old)):
                return
        if form != "dunder" and (self._own_setattr or self._is_property(name)):
            escape(value)
            return
        self._note_state(value, form, frame)
        binding = Binding(name, frame.statement, expression, value, form, frame)
        self.bindings.append(binding)
        self.attributes[name] = (binding,)
        self._bound.add(name)
        for part in alternatives(value):
            if isinstance(part, Container):
                self.bound_as.setdefault(id(part), set()).add(name)

    def set_numbered_attribute(self, pattern: str, value: Value, frame: Frame) -> None:
        """Bind a plain tensor to one of the attributes of ``self`` whose names an expression computes (``scale{}``)."""
        if frame.statement is None or self._own_setattr:
            escape(value)
            return
        if any(
            is_numbered(name, pattern) and any(binding.form == "register" for binding in bindings)
            for name, bindings in self.attributes.items()
        ):
            # A registered buffer stays one when a tensor is assigned to it.
            return
        binding = Binding(pattern, frame.statement, None, value, "setattr", frame)
        self.bindings.append(binding)
        self.attributes[pattern] = (*self.attributes.get(pattern, ()), binding)
        self._bound.add(pattern)

    def _is_property(self, name: str) -> bool:
        for ref, names in zip(self.lineage, self._class_names, strict=True):
            if name in names:
                found = self._in_class(ref, name)
                return isinstance(found, Function) and is_property(found.node)
        return False

    # The base's __init__

    def initialised(self, frame: Frame) -> None:
        """Note that ``__init__`` of a base class is called here."""
        self.initialisation.called = True

    def _note_state(self, value: Value, form: str, frame: Frame) -> None:
        state = self.initialisation
        if not self._in_own_init or form == "dunder" or state.first_state is not None:
            return
        if form == "register" or any(
            isinstance(part, Instance) and part.kind in ("module", "parameter", "buffer")
            for part in alternatives(value)
        ):
            state.first_state = frame.statement
            state.early = not state.called
