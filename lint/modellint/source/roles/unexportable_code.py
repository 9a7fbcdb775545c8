"""Unexportable code: what no exported program holds, such as arguments that are no tensors, numbers that Python draws, other runtimes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import External, Imported, dotted_name
from modellint.source.syntax.ast_walk import called_name, given_to, of_kind

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.mentions import Mention
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_MODULE = re.compile(r"\bModule\b")
_RUNTIMES = frozenset(
    {
        "coremltools",
        "ncnn",
        "onnxruntime",
        "openvino",
        "paddle",
        "tensorflow",
        "tensorrt",
        "tflite_runtime",
        "triton_python_backend_utils",
        "tritonclient",
    }
)
"""Packages that run models themselves."""
_ARRAY = re.compile(r"(?:np|numpy)\.ndarray|ndarray")
_OF_MODELS = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict", "named_modules"}
)
"""Methods that modules have and tensors do not."""
_SAMPLES = re.compile(r"(?:batch_)?data_samples")
_WITH_NUMBERS = re.compile(r"(?:batch_)?(?:img_metas|data_samples)")
"""Arguments that hold what is known of an image besides its tensor: what a framework asks for, and no exported program is given."""
_EXPORTS = re.compile(r"\bonnx\.export\b|\bjit\.(?:trace|script)\b|\bexport\.export\b|\bct\.convert\b|coremltools")


def takes_samples(function: _Function, code: str) -> bool:
    """Whether a function, not `forward` itself, packs what a model gives into the samples of a framework."""
    names = _WITH_NUMBERS if code in ("FLW002", "FLW003") else _SAMPLES
    arguments = (*function.args.args, *function.args.kwonlyargs) if function.name != "forward" else ()
    return any(names.fullmatch(argument.arg) for argument in arguments)


def takes_module(forward: _Function) -> bool:
    """Whether a `forward` is given a model that it runs, which no exported program can be given."""
    arguments = [*forward.args.posonlyargs, *forward.args.args][1:]
    annotated = any(one.annotation is not None and _MODULE.search(ast.unparse(one.annotation)) for one in arguments)
    if annotated:
        return True
    names = {argument.arg for argument in arguments}
    calls = [call.func for call in of_kind(forward, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id in names & {"model", "network"} for called in calls) or any(
        isinstance(called, ast.Attribute)
        and called.attr in _OF_MODELS
        and isinstance(called.value, ast.Name)
        and called.value.id in names
        for called in calls
    )


def takes_arrays(forward: _Function) -> bool:
    """Whether a `forward` has to be given an array of NumPy, which no exported program is."""
    arguments = [*forward.args.posonlyargs, *forward.args.args]
    required = arguments[1 : len(arguments) - len(forward.args.defaults)]
    notes = [argument.annotation for argument in required if argument.annotation is not None]
    return any(_ARRAY.fullmatch(ast.unparse(note)) for note in notes)


def leaves_by_chance(forward: _Function) -> bool:
    """Whether a `forward` gives back its input as it is where a number says so that it draws, in evaluation too.

    `if torch.rand(1) > self.p: return x`
    """
    arguments = [*forward.args.posonlyargs, *forward.args.args][1:2]
    return (
        bool(arguments)
        and any(
            _asks_chance(part.test) and _gives_back(body, arguments[0].arg)
            for part in forward.body
            if isinstance(part, ast.If)
            for body in (part.body, part.orelse)
        )
        and not any(part.attr == "training" for part in of_kind(forward, ast.Attribute))
    )


def draws_by_itself(forward: _Function) -> bool:
    """Whether a `forward` always draws from Python's or NumPy's numbers, in evaluation too, which a program would hold as constants."""
    simple = (part for part in forward.body if isinstance(part, (ast.Assign, ast.Expr, ast.Return)))
    return any(
        isinstance(part, ast.Call) and _DRAWS.fullmatch(dotted_name(part.func) or "")
        for statement in simple
        for part in ast.walk(statement)
    ) and not any(part.attr == "training" for part in of_kind(forward, ast.Attribute))


_DRAWS = re.compile(r"(?:(?:np|numpy)\.)?random\.(?:random|rand|randn|randint|uniform|normal|choice|choices|sample)")


def _asks_chance(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(part, ast.Call) and _CHANCES.fullmatch(dotted_name(part.func) or "") for part in ast.walk(test)
    )


_CHANCES = re.compile(r"torch\.rand|(?:(?:np|numpy)\.)?random\.(?:random|rand|uniform)")
"""Calls that draw a number evenly between two bounds."""


def _gives_back(body: list[ast.stmt], name: str) -> bool:
    match body:
        case [ast.Return(value=ast.Name(id=returned))]:
            return returned == name
    return False


def serves(file: IndexedFile) -> bool:
    """Whether a file runs models that were exported before, and exports none: what it computes besides is no part of one."""
    return knows_a_runtime(file) and not _EXPORTS.search(file.source.text)


def knows_a_runtime(file: IndexedFile) -> bool:
    """Whether a file imports what runs models that were exported before; it may be the one that exports them."""
    imported = [name for bindings in file.names.values() for name in bindings if isinstance(name, Imported)]
    return any(one.module.partition(".")[0] in _RUNTIMES for one in imported)


def imports_a_runtime(function: _Function) -> bool:
    """Whether a method imports what runs models that were exported before: its class is a wrapper around them."""
    imported = [alias.name for part in of_kind(function, ast.Import) for alias in part.names]
    imported += [part.module or "" for part in of_kind(function, ast.ImportFrom) if not part.level]
    return any(name.partition(".")[0] in _RUNTIMES for name in imported)


def only_raises(function: _Function) -> bool:
    """Whether a function does nothing but raise."""
    body = [part for part in function.body if not isinstance(part, (ast.Expr, ast.Pass))]
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def is_for_samples(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether what a mention builds is put among the transforms of samples: `Compose([Net()])`, or a list that this is given."""
    function = mention.function
    if function is None:
        return False
    composed = [
        part
        for call in of_kind(function, ast.Call)
        if called_name(call) == "Compose" and _is_of_library(project, file, call.func)
        for part in given_to(call)
    ]
    names = {part.id for part in composed if isinstance(part, ast.Name)}
    lists = [part for part in composed if isinstance(part, ast.List)]
    match mention.statement:
        case ast.AugAssign(target=ast.Name(id=name), value=ast.List() as value) if name in names:
            lists.append(value)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() as value) if name in names:
            lists.append(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[part])):
            return name in names and isinstance(part, ast.Call) and part.func is mention.node
    return any(isinstance(part, ast.Call) and part.func is mention.node for value in lists for part in value.elts)


def _is_of_library(project: Project, file: IndexedFile, node: ast.expr) -> bool:
    dotted = dotted_name(node)
    return dotted is not None and isinstance(project.resolve(file, dotted), External)
