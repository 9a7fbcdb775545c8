"""Signs of what a class makes: tensors while it is built, modules while it runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.data.torch_names import MODULES
from modellint.source.project.annotations import says_tensor
from modellint.source.project.external_name_facts import may_build
from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, of_kind, reached_from, walk

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_NO_TENSOR = frozenset(
    {"device", "no_grad", "enable_grad", "inference_mode", "is_tensor", "save", "load", "compile", "finfo", "iinfo"}
    | {"get_default_dtype", "manual_seed", "set_grad_enabled", "is_grad_enabled", "is_floating_point", "autocast"}
)
"""Functions of torch that give none."""

_WRAPPING = frozenset({"Parameter", "Buffer", "register_parameter", "register_buffer"})
"""Functions that make what they are given a parameter or a buffer."""


def makes_tensors(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether what ``__init__`` runs, or else any function, may make a tensor, or is said to be given one."""
    if file.stars:
        return True
    functions = functions_in(nodes)
    building = [function for function in functions if function.name == "__init__"] or functions
    return any(_makes_here(file, function) for function in reached_from(building, functions))


def _makes_here(file: IndexedFile, function: Function) -> bool:
    calls = of_kind(function, ast.Call)
    making = [call for call in calls if _may_make(file, call.func)]
    if making:
        wrapped = {part for call in calls if called_name(call) in _WRAPPING for part in walk(call)}
        if any(call not in wrapped for call in making):
            return True
    if function.name == "__init__" and any(says_tensor(one.annotation) for one in of_kind(function, ast.arg)):
        return True
    return any(
        node.value is not None and "Tensor" in ast.unparse(node.annotation) for node in of_kind(function, ast.AnnAssign)
    )


def _may_make(file: IndexedFile, called: ast.expr) -> bool:
    """Whether a function may be one of torch's that gives a tensor, whatever it is given."""
    path: list[str] = []
    while isinstance(called, ast.Attribute):
        path.append(called.attr)
        called = called.value
    if not isinstance(called, ast.Name):
        return False
    last = path[0] if path else called.id
    if last.endswith("Tensor") or last == "Variable":
        return True
    if last[:1].isupper() or last in _NO_TENSOR:
        return False
    bindings = file.names.get(called.id)
    if bindings is None:
        return False
    for binding in bindings:
        if isinstance(binding, Imported):
            whole = [binding.module, *([binding.name] if binding.name else []), *reversed(path)]
            name = ".".join(whole)
            if name.startswith("torch.") and not name.startswith(
                ("torch.nn.", "torch.jit.", "torch.utils.", "torch.distributed")
            ):
                return True
        elif called.id not in ("self", "cls") and path:
            return True
    return False


def casts_parameters(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether something is done to a parameter in the expression that makes it, or its class is handed on."""
    for node in nodes:
        making: set[ast.expr] = set()
        called: set[ast.expr] = set()
        for call in of_kind(node, ast.Call):
            if _is_parameter(file, called_name(call)):
                making.add(call)
                called.add(call.func)
        used = [one.value for one in of_kind(node, ast.Attribute)]
        used += (one.operand for one in of_kind(node, ast.UnaryOp))
        used += (part for one in of_kind(node, ast.BinOp) for part in (one.left, one.right))
        if making and not making.isdisjoint(used):
            return True
        if any(one.attr.endswith("Parameter") and one not in called for one in of_kind(node, ast.Attribute)):
            return True
        if any(one.id.endswith("Parameter") and one not in called for one in of_kind(node, ast.Name)):
            return True
    return False


def _is_parameter(file: IndexedFile, name: str) -> bool:
    """Whether a name may be that of the class of parameters, or of one like it."""
    others = (getattr(one, "name", "") or getattr(one, "attr", "") for one in file.names.get(name, ()))
    return name.endswith("Parameter") or any(other.endswith("Parameter") for other in others)


def builds(nodes: Sequence[ast.stmt]) -> bool:
    """Whether a function other than ``__init__``, or one inside that, may build a module with state."""
    running: list[ast.AST] = []
    for function in functions_in(nodes):
        if function.name != "__init__":
            running.append(function)
        else:
            running += (*of_kind(function, ast.FunctionDef), *of_kind(function, ast.Lambda))
    return any(_builds_here(call) for function in running for call in of_kind(function, ast.Call))


def _builds_here(call: ast.Call) -> bool:
    name = called_name(call)
    return may_build(name) and bool(call.args or call.keywords or not name.endswith("Loss"))


def untracked(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a batch normalization may keep no running statistics: by that name, a fifth argument, or as a function."""
    if "track_running_stats" in file.source.text:
        return True
    return any(_may_untrack(call) for node in nodes for call in of_kind(node, ast.Call))


def _may_untrack(call: ast.Call) -> bool:
    name = called_name(call)
    if name == "batch_norm":
        return True
    if "BatchNorm" in name:
        return len(call.args) > 4 or any(isinstance(part, ast.Starred) for part in call.args)
    # By another name: `norm(64, 1e-5, 0.1, True, False)`, but neither `nn.Conv2d(...)` nor `F.conv2d(...)`.
    if name in MODULES or (isinstance(call.func, ast.Attribute) and name.islower() and name != "partial"):
        return False
    return any(isinstance(part, ast.Constant) and part.value is False for part in call.args[4:])
