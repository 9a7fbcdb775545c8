"""Container fix, shared by the rules about plain containers: `nn.ModuleList` and its like around the plain container."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from modellint.authoring import Applicability, Edit, Fix, Instance, Severity, of_kind, once, operators, walk

if TYPE_CHECKING:
    from modellint.authoring import Attribute, Hidden, ModuleClass, Value

LIST_METHODS = frozenset({"index", "count", "remove", "copy", "clear", "reverse", "sort"})
"""Methods of a list that ``nn.ModuleList`` lacks."""

DICT_METHODS = frozenset({"get", "setdefault", "copy", "popitem", "fromkeys"})
"""Methods of a dict that ``nn.ModuleDict`` lacks."""

_WITH_A_MODE = re.compile(r"torch\.nn\.(?:\w*Dropout[123]?d?|RReLU|(?:Sync|Lazy)?BatchNorm[123]?d?)\Z")


def hiding(
    cls: ModuleClass, kind: Literal["module", "parameter"], *, keyed: bool
) -> Iterator[tuple[Attribute, Hidden, ast.stmt]]:
    """The attributes that hide modules or parameters in a plain dict, or else in a list, tuple or set, and where."""
    for attribute in cls.attributes:
        hidden = attribute.hidden(kind)
        if hidden is None or (hidden.kind == "dict") != keyed:
            continue
        place = cls.place(hidden)
        if place is not None:
            yield attribute, hidden, place


def weight_of(cls: ModuleClass, hidden: Hidden) -> Severity | None:
    """The severity of modules that are hidden, where it is not the rule's own: criteria of a loss are in no exported program."""
    if cls.compares_by(hidden):
        return Severity.INFO
    return Severity.WARNING if hidden.stateless else None


def unseen_by(hidden: Hidden) -> str:
    """What does not reach the modules that an attribute hides."""
    return (
        "`children()`, `modules()` and `apply()`"
        if hidden.stateless
        else "`parameters()`, `state_dict()`, `.to()` and `.eval()`"
    )


def wrapped(cls: ModuleClass, attribute: Attribute, kind: str, container: str, lacks: frozenset[str]) -> Fix | None:
    """The fix that binds ``attribute`` to ``nn.<container>`` wherever it hides a ``kind``; None where it cannot be used as that.

    ``lacks`` are the methods of the plain container that the registering one does not have.
    """
    values = [value for value in attribute.all_hidden(kind) if not _is_part_of(attribute, value.binding.expression)]
    if not values or _cannot_be_replaced(cls, attribute, lacks):
        return None
    if not all(_fits(value, container) for value in values):
        return None
    edits: list[Edit] = []
    done: set[int] = set()
    text = ""
    for value in values:
        nodes = _to_wrap(cls, attribute, value)
        statement = value.binding.statement
        if nodes is None or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return None
        function = once(cls.node, "_functions", _functions).get(statement)
        spelling = cls.rewriter.spelling(container, function)
        if spelling is None:
            return None
        text = text or spelling.text
        new = [node for node in nodes if id(node) not in done]
        if isinstance(statement, ast.AnnAssign) and id(statement) not in done:
            edits.append(cls.rewriter.replace(statement.annotation, spelling.text))
        for node in new:
            edits.extend(cls.rewriter.wrap(node, spelling.text))
        edits.extend(edit for edit in spelling.imports if edit not in edits)
        done.update(map(id, (statement, *new)))
    certain = all(value.certain for value in values) and not attribute.uses.foreign_calls
    keys = "" if all(value.stateless for value in values) else "; adds `state_dict` keys"
    mode = "; `eval()` then reaches them, which changes outputs" if any(map(_drops, values)) else ""
    return Fix(
        f"Wrap `self.{attribute.name}` in `{text}`{keys}{mode}",
        tuple(edits),
        Applicability.SAFE if certain else Applicability.UNSAFE,
    )


def _drops(hidden: Hidden) -> bool:
    """Whether a member is certainly one that computes something else in evaluation mode, alone or inside a `Sequential`."""
    pending = list(hidden.members)
    while pending:
        member = pending.pop()
        if isinstance(member, Instance):
            if _WITH_A_MODE.match(member.name):
                return True
            if member.name == "torch.nn.Sequential":
                pending.extend(member.held)
    return False


def _is_part_of(attribute: Attribute, expression: ast.expr | None) -> bool:
    """Whether it is a slice of the attribute itself, which registers once what it is a slice of does."""
    match expression:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr=name), slice=ast.Slice()):
            return name == attribute.name
    return False


def _fits(hidden: Hidden, container: str) -> bool:
    """Whether what a container holds is what ``nn.<container>`` takes."""
    if hidden.mixed or hidden.kind == "set":
        return False
    if container.endswith("List"):
        return hidden.kind != "dict"
    return hidden.kind == "dict" and _keys_are_accepted(hidden, container)


def _cannot_be_replaced(cls: ModuleClass, attribute: Attribute, lacks: frozenset[str]) -> bool:
    if attribute.uses.needs_plain(lacks):
        return True
    if len(attribute.live) > 1 and any(binding.form == "augmented" for binding in attribute.live):
        return True
    words = "|".join(sorted(lacks))
    return attribute.name in once(cls.file.tree, f"_asked {words}", lambda _: _asked_for(words, cls.rewriter.text))


def _asked_for(methods: str, text: str) -> frozenset[str]:
    """The attributes of which a text calls one of these methods."""
    return frozenset(re.findall(rf"\.\s*((?:\w|[^\x00-\x7f])+)\s*\.\s*(?:{methods})\s*\(", text))


def _functions(cls: ast.ClassDef) -> dict[ast.AST, ast.FunctionDef]:
    """The function that each statement of a class stands in, the outermost one."""
    outer: dict[ast.AST, ast.FunctionDef] = {}
    for function in of_kind(cls, ast.FunctionDef):
        for node in walk(function):
            if isinstance(node, ast.stmt):
                outer.setdefault(node, function)
    return outer


def _to_wrap(cls: ModuleClass, attribute: Attribute, hidden: Hidden) -> list[ast.expr] | None:
    """The expressions to put the registering container around, the outermost first."""
    binding = hidden.binding
    expression = binding.expression
    if expression is None or binding.form not in ("assign", "annotated") or binding.file.path != cls.file.path:
        return None
    if isinstance(binding.statement, ast.Assign) and len(binding.statement.targets) != 1:
        return None
    inside = {id(node) for node in walk(expression)}
    if id(hidden.container.node) not in inside:
        # A local, or what a helper gave back: wrapped where it is bound, if nothing is added to it behind that.
        if not isinstance(expression, (ast.Name, ast.Call)) or binding.looped or _filled_later(cls, hidden):
            return None
        return None if hidden.nested else [expression]
    outer = hidden.container.node
    if not isinstance(outer, ast.expr):
        return None
    nodes = [outer]
    for node in hidden.inner_nodes:
        if (
            id(node) not in inside
            or not isinstance(node, (ast.List, ast.ListComp))
            or not isinstance(outer, (ast.List, ast.ListComp))
        ):
            return None
        nodes.append(node)
    return nodes


def _filled_later(cls: ModuleClass, hidden: Hidden) -> bool:
    bound_at = hidden.binding.statement.lineno
    for fill in cls.fills_of(hidden.container):
        if fill.file.path != cls.file.path:
            continue
        if fill.statement.lineno > bound_at and not _through_self(fill.statement):
            return True
    return False


def _through_self(statement: ast.stmt) -> bool:
    node: ast.AST | None = None
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver))):
            node = receiver
        case ast.Assign(targets=[ast.Subscript(value=receiver)]):
            node = receiver
        case ast.AugAssign(target=receiver):
            node = receiver
        case _:
            pass
    return isinstance(node, ast.Attribute)


def _keys_are_accepted(hidden: Hidden, container: str) -> bool:
    """Whether every key of a dict is sure to be a string that ``nn.<container>`` takes."""
    from modellint.authoring import alternatives

    refused = operators.attributes_of(container)
    if hidden.nested or not hidden.container.keys:
        return False
    return all(_is_accepted(part, refused) for key in hidden.container.keys for part in alternatives(key))


def _is_accepted(key: Value, refused: frozenset[str]) -> bool:
    from modellint.authoring import Const, Text

    match key:
        case Text(plain=True):
            return True
        case Const(value=str() as text):
            return bool(text) and "." not in text and text not in refused and not text.startswith("__")
    return False
