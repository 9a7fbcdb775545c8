"""Signs of what forgets the mode of a module, or goes past what calling it does."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.data.torch_names import MODULES
from modellint.source.domains.operator_sets import OFF_BY_DEFAULT, ON_BY_DEFAULT
from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import called_name, of_kind

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_DROPOUTS = frozenset({*ON_BY_DEFAULT, *OFF_BY_DEFAULT})


def drops(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a functional dropout may be on whatever the mode, or is handed on."""
    calls = [call for node in nodes for call in of_kind(node, ast.Call)]
    if any(map(_may_drop, calls)):
        return True
    # Handed on: `drop = F.dropout`.
    called = {call.func for call in calls}
    return any(
        part not in called and _is_dropout(file, part)
        for node in nodes
        for parts in (of_kind(node, ast.Attribute), of_kind(node, ast.Name))
        for part in parts
    )


def _is_dropout(file: IndexedFile, node: ast.expr) -> bool:
    """Whether an expression is a functional dropout, by torch's module or by an import of its own."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr=module), attr=name):
            return name in _DROPOUTS and module == "functional"
        case ast.Attribute(value=ast.Name(id=root), attr=name) if name in _DROPOUTS:
            return any(
                isinstance(one, Imported) and (one.module.endswith("functional") or one.name == "functional")
                for one in file.names.get(root, ())
            )
        case ast.Name(id=name):
            return any(
                isinstance(one, Imported) and one.name in _DROPOUTS and one.module.endswith("functional")
                for one in file.names.get(name, ())
            )
    return False


def _may_drop(call: ast.Call) -> bool:
    name = called_name(call)
    mode = [word.value for word in call.keywords if word.arg == "training"]
    anything = any(word.arg is None for word in call.keywords)
    if name in ON_BY_DEFAULT:
        return not mode and not anything and len(call.args) <= ON_BY_DEFAULT[name]
    if name in OFF_BY_DEFAULT:
        mode += call.args[OFF_BY_DEFAULT[name] : OFF_BY_DEFAULT[name] + 1]
        return any(not (isinstance(one, ast.Attribute) and one.attr == "training") for one in mode)
    return False


def untracked(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a batch normalization may be told to keep no running statistics: by that name, or by a fifth argument."""
    if "track_running_stats" in file.source.text:
        return True
    return any(_may_untrack(call) for node in nodes for call in of_kind(node, ast.Call))


def _may_untrack(call: ast.Call) -> bool:
    name = called_name(call)
    if "BatchNorm" in name:
        return len(call.args) > 4 or any(isinstance(part, ast.Starred) for part in call.args)
    # By another name: `norm(64, 1e-5, 0.1, True, False)`, but neither `nn.Conv2d(...)` nor `F.conv2d(...)`.
    if name in MODULES or (isinstance(call.func, ast.Attribute) and name.islower() and name != "partial"):
        return False
    return any(isinstance(part, ast.Constant) and part.value is False for part in call.args[4:])


def calls_forward(nodes: Sequence[ast.stmt]) -> bool:
    """Whether the `forward` of another object than the base class is called."""
    return any(_is_forward(call) for node in nodes for call in of_kind(node, ast.Call))


def _is_forward(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "forward"
        and not (isinstance(node.func.value, ast.Call) and getattr(node.func.value.func, "id", "") == "super")
    )
