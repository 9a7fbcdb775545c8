"""Why what was captured is another model than the one given."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torch import nn

from modellint.coreml.verification import FirstDifference, Lost
from modellint.live.mode import depends_on_mode
from modellint.live.place import Place, Project, class_node, span_of, statement_at
from modellint.live.subject import Subject
from modellint.settings import Destination

if TYPE_CHECKING:
    from modellint.coreml.conversion import TakenNumber
    from modellint.coreml.reference import Changed
    from modellint.live.subject import Inputs


def of_capture(
    changed: Sequence[Changed], taken: Sequence[TakenNumber], model: nn.Module, project: Project, case: str
) -> FirstDifference | None:
    """Why what was captured is another model: state that it does not keep, or numbers and branches of the example's."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for one in changed:
        module = modules.get(one.module)
        place = None if module is None else written_in(type(module), one.attribute)
        name = f"{one.module}.{one.attribute}" if one.module else one.attribute
        message = f"every run changes `{name}`; the program holds the value that it had when it was captured"
        return FirstDifference(
            "capture", message, None, None, None, place, one.module, 0.0, (), case, (Lost("update", place, one.module),)
        )
    own = [one for one in taken if project.owns(one.path)] or list(taken)
    for number in own:
        place = statement_at(number.path, number.row)
        message = "the trace holds the branch or the number that the example's values lead to"
        return FirstDifference("capture", message, None, None, None, place, "", 0.0, (), case)
    return None


def left_in_training(model: nn.Module, inputs: Inputs, project: Project) -> FirstDifference | None:
    """A module in training mode that ``model.eval()`` does not reach, as PyTorch does not know of it."""
    subject = Subject(model, inputs, project.root, Destination())
    for held in subject.hidden:
        if not isinstance(held.value, nn.Module):
            continue
        if any(one.training and depends_on_mode(one) for one in held.value.modules()):
            path = held.places[0]
            place = subject.attribute_place(held.owner, held.attribute)[1]
            message = f"`{path}` is in training mode, as eval() does not reach it, and so is what is converted"
            return FirstDifference("mode", message, None, None, None, place, path, 0.0, (), "the example")
    return None


def written_in(cls: type, attribute: str) -> Place | None:
    """The first statement of a class's methods, but for its constructor, that writes to ``self.attribute``."""
    for base in cls.__mro__:
        found = class_node(base)
        if found is None:
            continue
        path, node = found
        for method in node.body:
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
                for one in ast.walk(method):
                    if isinstance(one, ast.stmt) and _writes(one, attribute):
                        return Place(path, span_of(path, one))
    return None


def _writes(statement: ast.stmt, attribute: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(_is_part(part, attribute) for target in targets for part in _flat(target))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _is_part(target, attribute)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=name))):
            return name.endswith("_") and not name.endswith("__") and _is_part(value, attribute)
    return False


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _flat(part)
    else:
        yield target


def _is_part(node: ast.expr, attribute: str) -> bool:
    """Whether an expression is ``self.attribute``, or a part or a view of it."""
    while True:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name == attribute
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return False
