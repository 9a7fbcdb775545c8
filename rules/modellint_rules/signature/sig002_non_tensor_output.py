"""SIG002: a model that returns something that is no tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING

from modellint.authoring import (
    ClassValue,
    Const,
    Container,
    Diagnostic,
    Drawn,
    External,
    Instance,
    Rule,
    Severity,
    Trigger,
    Value,
    alternatives,
    called_name,
    of_kind,
    walk,
)
from modellint_rules.signature.exported_classes import is_outermost, outputs

if TYPE_CHECKING:
    from modellint.authoring import ClassRef, Code, LiveModel


class NonTensorOutput(Rule):
    """A model that returns None, a number, a string or another object that is no tensor, by itself or among tensors.

    ## What it does
    Looks at what the model returned in the run, inside tuples, lists and dicts too. In source it finds `forward` methods that end by
    returning something which certainly is no tensor, a dataclass or what counts turns too, by itself, in a tuple or list, or all that
    a list is filled with. None counts that a method, a function or another module of the project gives as a part of
    a tuple, or attention with `need_weights=False`, and None that stands in for what no flag in the project asks for, or for what the
    flag leaves out that all of the project's own exports give (`torch.jit.trace(net, (image, True))`).

    ## Why
    `torch.jit.trace` refuses it. `torch.export` captures None and numbers, but coremltools then fails on the output that is no
    tensor.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            return self.linear(x), None


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            return self.linear(x)


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    There is no fix: callers may read what is returned. For the export, wrap the model in a module that returns the tensors alone.

    ## Known limits
    In a run only what is returned for the example inputs is seen. In source a class that by its name or by another class of the file is
    a part of a model is left alone, and so is what a flag asks for unless all that use the model leave it, and `...`.
    Objects that PyTorch's own `pytree` takes apart count as what they hold; in source, objects of classes of the project are
    found whose bases are all known, dataclasses too, and that nothing in the project registers.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    - <https://apple.github.io/coremltools/docs-guides/source/convert-pytorch.html>
    """

    code = "SIG002"
    name = "non-tensor-output"
    severity = Severity.ERROR
    advice = "Return the tensors alone, or wrap the model for the export in a module that does"
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.RETURNS_NON_TENSOR)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask what `forward` returns whether it is a tensor."""
        if not code.shows(Trigger.RETURNS_NON_TENSOR) or not is_outermost(code):
            return
        for statement, written, values in outputs(code):
            kinds = [_kind(code, value, written) for value in values]
            stub = isinstance(written, ast.Constant) and written.value is None
            is_absent = not all(kinds) and bool(code.absent_outputs(statement))
            if is_absent:
                # What is called gives it, or a flag that nothing sets leaves it out.
                kinds = ["None"]
            if kinds and all(kinds) and not stub:
                beside = " beside tensors" if is_absent or isinstance(written, (ast.Tuple, ast.List)) else ""
                yield code.finding(
                    self,
                    statement,
                    f"the model returns {kinds[0]}{beside}: neither route converts it, as only tensors can be outputs",
                    statement=statement,
                    advice="Return the tensors alone, or wrap the model for the export in a module that does",
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the output what it is made of."""
        run = subject.run
        if run is None or run.failure is not None:
            return
        parts = list(subject.outputs)
        kinds = list(dict.fromkeys(part.type for part in parts if part.kind == "other"))
        if kinds:
            named = ", ".join(kind if kind == "None" else f"a `{kind}`" for kind in kinds)
            beside = " beside tensors" if any(part.kind == "tensor" for part in parts) else ""
            yield subject.finding(
                self,
                f"the model returns {named}{beside}: neither route converts it, as only tensors can be outputs",
                at=subject.returning(_is_constant),
            )
        elif not parts:
            yield subject.finding(self, "the model returns no tensor", at=subject.returning(_is_constant))


def _is_constant(value: ast.expr | None) -> bool:
    """Whether something that is written in a `return` is no tensor for sure."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return any(_is_constant(part) for part in value.elts)
    return value is None or isinstance(value, (ast.Constant, ast.JoinedStr))


def _kind(code: Code, value: Value, written: ast.expr) -> str | None:
    """What a value certainly holds that is no tensor, in words."""
    if isinstance(value, Container) and value.kind == "list" and _is_handed_on(code, written):
        return None
    if isinstance(value, Container) and value.kind in ("tuple", "list") and value.exact:
        parts = written.elts if isinstance(written, (ast.Tuple, ast.List)) else [written] * len(value.items)
        if len(parts) != len(value.items):
            return None
        return next(
            (kind for item, part in zip(value.items, parts, strict=True) if (kind := _kind(code, item, part))), None
        )
    if isinstance(value, Container) and value.kind == "list" and value.items and not value.escaped:
        # Filled turn by turn: whatever it may hold is none.
        filled = [_kind(code, item, written) for item in value.items]
        return filled[0] if all(filled) else None
    kinds = {_simple(part, written) or _object(code, part) for part in alternatives(value)}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind or ("a number of Python" if _is_counted(code, written) else None)


def _is_handed_on(code: Code, written: ast.expr) -> bool:
    """Whether `forward` gives a variable to something that may put more into it, or lets another stand for it."""
    function = _forward(code)
    if not isinstance(written, ast.Name) or function is None:
        return False
    for call in of_kind(function, ast.Call):
        given = [*call.args, *(word.value for word in call.keywords)]
        if any(_names(part, written.id) for part in given) and called_name(call) not in _READERS:
            return True
    return any(_names(assign.value, written.id) for assign in of_kind(function, ast.Assign))


def _names(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


_READERS = frozenset({"len", "enumerate", "zip", "list", "tuple", "reversed", "sorted", "sum", "any", "all", "print"})


def _forward(code: Code) -> ast.FunctionDef | None:
    nodes = code.ref.node.body if code.ref is not None else ()
    return next((node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "forward"), None)


def _is_counted(code: Code, written: ast.expr) -> bool:
    """Whether an expression is made of numbers that `forward` itself writes: `steps = 0`, and in a loop `steps += 1`."""
    function = _forward(code)
    names = {part.id for part in walk(written) if isinstance(part, ast.Name)}
    if function is None or not names or not _is_arithmetic(written, names):
        return False
    counted: set[ast.AST] = set()
    for assign in of_kind(function, ast.Assign):
        if _is_arithmetic(assign.value, names):
            counted.update(assign.targets)
    for changed in of_kind(function, ast.AugAssign):
        if _is_arithmetic(changed.value, names):
            counted.add(changed.target)
    stored = [node for node in of_kind(function, ast.Name) if node.id in names and not isinstance(node.ctx, ast.Load)]
    arguments = {argument.arg for argument in of_kind(function, ast.arg)}
    return names == {node.id for node in stored} and counted.issuperset(stored) and names.isdisjoint(arguments)


def _is_arithmetic(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression computes with numbers that are written out, and some variables, alone."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.UnaryOp(operand=operand):
            return _is_arithmetic(operand, names)
        case ast.BinOp(left=left, right=right):
            return _is_arithmetic(left, names) and _is_arithmetic(right, names)
    return False


def _object(code: Code, value: Value) -> str | None:
    """The class of the project that a value certainly is an object of, where PyTorch's `pytree` does not take it apart."""
    if not isinstance(value, Instance) or value.kind != "object" or not isinstance(value.node, ast.Call):
        return None
    callees = [part for reading in code.readings(value.node) for part in alternatives(reading.callee)]
    refs = [callee.ref for callee in callees if isinstance(callee, ClassValue)]
    if not refs or len(refs) < len(callees) or not all(_is_closed(code, ref) for ref in refs):
        return None
    return f"a `{refs[0].node.name}`"


def _is_closed(code: Code, ref: ClassRef) -> bool:
    """Whether a class has no bases but those of the project, and nothing that may register it with `pytree`."""
    for above in code.project.lineage(ref):
        for base in code.project.bases(above):
            if base is None or (isinstance(base, External) and base.name not in _PLAIN_BASES):
                return False
        if above.node.keywords or not all(_is_plain_decorator(decorator) for decorator in above.node.decorator_list):
            return False
    here = {id(file): file.tree for file in (code.file, ref.file)}
    return not any(_registers(tree, ref) for tree in here.values()) and not _is_registered_elsewhere(code, ref)


def _registers(tree: ast.AST, ref: ClassRef) -> bool:
    """Whether a file hands a class to what may register it with `pytree`."""
    return any(
        "regist" in called_name(call) and any(_last(argument) == ref.node.name for argument in call.args)
        for call in of_kind(tree, ast.Call)
    )


def _is_registered_elsewhere(code: Code, ref: ClassRef) -> bool:
    """Whether another file of the project registers a class: the export script, a test of it."""
    project = code.project
    project.touch_tree()
    paths = [path for path in project.mentions.naming(ref.node.name) if project.mentions.matches(path, _REGISTERING)]
    files = [project.file(path) for path in paths if path not in (code.file.path, ref.file.path)][:_MOST_FILES]
    return any(file is not None and _registers(file.tree, ref) for file in files)


_MOST_FILES = 24
"""Files that are looked at for who registers a class."""
_REGISTERING = re.compile(rb"\b(?:register_dataclass|register_pytree_\w+|_register_pytree_node)\(")
_PLAIN_BASES = frozenset({"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"})


def _is_plain_decorator(node: ast.expr) -> bool:
    return _last(node.func if isinstance(node, ast.Call) else node) == "dataclass"


def _last(node: ast.expr) -> str:
    return getattr(node, "attr", "") or getattr(node, "id", "")


def _simple(value: Value, written: ast.expr) -> str | None:
    match value:
        case Const(value=None):
            return "None"
        case Const(value=EllipsisType()):
            # It stands for what is yet to be written.
            return None
        case Const(value=str()):
            return "a `str`"
        case Const(value=constant):
            return f"a `{type(constant).__name__}`"
        case Drawn(node=ast.Call(func=ast.Attribute(attr="item"))):
            return "a number of Python"
    if isinstance(written, ast.JoinedStr):
        return "a `str`"
    return None
