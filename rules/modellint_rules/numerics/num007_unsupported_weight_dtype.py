"""NUM007: a parameter or buffer of a type that Core ML does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Diagnostic,
    Fix,
    Rule,
    Severity,
    Tensor,
    alternatives,
    of_kind,
    parents_in,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Binding, Code, LiveModel, State

_SEVERITIES = {
    "bfloat16": Severity.ERROR,
    "complex32": Severity.ERROR,
    "complex64": Severity.ERROR,
    "complex128": Severity.ERROR,
    "float64": Severity.WARNING,
}


_NAMES = {
    "bfloat16": "bfloat16",
    "double": "float64",
    "float64": "float64",
    "complex32": "complex32",
    "complex64": "complex64",
    "complex128": "complex128",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_MAKERS = {"complex": "complex64", "polar": "complex64", "view_as_complex": "complex64", "DoubleTensor": "float64"}
_WORDS = frozenset({*_NAMES, *_MAKERS})
_PAIR = "Register its real and its imaginary part, or export with `modellint export`, which computes with such pairs"


class UnsupportedWeightDtype(Rule):
    """A parameter or buffer in bfloat16, a complex type or float64.

    ## What it does
    Looks at the types of all parameters and buffers; a model most of which is of one such type is one finding. With example
    inputs, state that no operator of the run reads is left out. In source it finds parameters and buffers that `forward` reads, and
    whose type is written down where they are registered.

    ## Why
    Core ML has neither bfloat16 nor complex tensors: the conversion fails. It has no float64 either and narrows it to float32
    or float16 without a word, hence a warning.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))

        def forward(self, x):
            return x * self.weight
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16).float())

        def forward(self, x):
            return x * self.weight
    ```

    ## Fix safety
    The fix makes the tensor float32. It is unsafe: the model computes with other numbers, and checkpoints load into another
    type. For complex tensors there is none: they want to be written as two real ones, and `modellint export` computes
    with such pairs where it knows all that is done to them. For a whole model, `model.float()` before
    the export does the same.

    ## Known limits
    Plain tensors on attributes are not looked at. In source a type counts that is written in the statement that registers the
    tensor, or makes it on the line before; a float64 that `forward` casts wherever it reads it is left alone.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/typed-execution.html>
    """

    code = "NUM007"
    name = "unsupported-weight-dtype"
    severity = Severity.ERROR
    only_inference = True
    needs = (frozenset({"Parameter", "Buffer", "register_buffer", "register_parameter"}), _WORDS)
    only_modules = True
    fixable = "`.float()`"
    advice = "Make it float32 before the export: `model.float()`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every registered tensor that `forward` reads for the type that is written down."""
        if code.is_training_only:
            return
        for name, bindings in code.attributes.items():
            binding = bindings[-1]
            if len(bindings) != 1 or binding.file is not code.file or not code.is_read_in_forward(name):
                continue
            if not all(isinstance(part, Tensor) and part.registered for part in alternatives(binding.value)):
                continue
            source = _made_of(binding)
            kind = _type_of(source, _function_of(code, binding)) if source is not None else None
            if source is None or kind not in _SEVERITIES or (kind == "float64" and _is_cast(code, name)):
                continue
            what = next(part.kind for part in alternatives(binding.value) if isinstance(part, Tensor))
            fix = None
            if not kind.startswith("complex") and not isinstance(source, ast.Name):
                match source:
                    case ast.Call(func=ast.Attribute(attr="double" | "bfloat16")) as cast:
                        edit = code.rewriter.rename_method(cast, "float")
                    case _:
                        edit = code.rewriter.insert(code.rewriter.end(source), ".float()")
                title = f"Make it float32; outputs change, as they are no longer computed from {kind}"
                fix = Fix(title, (edit,), Applicability.UNSAFE)
            yield code.finding(
                self,
                binding.statement,
                f"the {what} `{name}` is {kind}, which {_trouble(kind)}",
                attribute=name,
                severity=_SEVERITIES[kind],
                advice=_PAIR if kind.startswith("complex") else None,
                fix=fix if isinstance(source, ast.Call) else None,
                statement=binding.statement,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every tensor of the state for its type."""
        by_type: dict[str, list[State]] = {}
        for state in subject.state:
            name = str(state.tensor.dtype).removeprefix("torch.")
            if name in _SEVERITIES:
                by_type.setdefault(name, []).append(state)
        if not by_type:
            return
        run = subject.run
        read = subject.state_read if run is not None and run.failure is None else None
        fractional = sum(state.tensor.is_floating_point() or state.tensor.is_complex() for state in subject.state)
        for name, states in by_type.items():
            used = [state for state in states if read is None or not read.isdisjoint(state.names)]
            if len(used) > 1 and 2 * len(states) > fractional:
                yield subject.finding(
                    self,
                    f"{len(used)} parameters and buffers of the model are {name}, which {_trouble(name)}",
                    at=subject.class_place(subject.model),
                    severity=_SEVERITIES[name],
                    modules=[holder for state in used for holder in _holders(state)],
                    advice=_PAIR if name.startswith("complex") else "call `model.float()` before the export",
                )
                continue
            for state in used:
                yield subject.finding(
                    self,
                    f"the {state.kind} `{state.attribute}` is {name}, which {_trouble(name)}",
                    severity=_SEVERITIES[name],
                    modules=_holders(state),
                    advice=_PAIR if name.startswith("complex") else None,
                    **subject.binding(state.name).keywords(),
                )


def _holders(state: State) -> Iterator[str]:
    return (name.rpartition(".")[0] for name in state.names)


def _trouble(name: str) -> str:
    return "Core ML narrows without a word" if _SEVERITIES[name] is Severity.WARNING else "Core ML does not have"


def _made_of(binding: Binding) -> ast.expr | None:
    """What a parameter or buffer is made of, where the statement that registers it says so."""
    statement = binding.statement
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) else None
    match value:
        case ast.Call(
            func=ast.Attribute(attr="Parameter" | "Buffer") | ast.Name(id="Parameter" | "Buffer"), args=[source, *_]
        ):
            return source
        case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[_, source, *_]):
            return source
    return None


def _function_of(code: Code, binding: Binding) -> ast.AST | None:
    for ref in code.lineage:
        for function in of_kind(ref.node, ast.FunctionDef):
            if function.name == binding.method and any(part is binding.statement for part in walk(function)):
                return function
    return None


def _type_of(node: ast.expr, function: ast.AST | None, depth: int = 0) -> str | None:
    """The type of tensor that an expression certainly gives, where it is one that is written down."""
    match node:
        case ast.Name(id=name) if function is not None and depth < 3:
            bound = [
                assignment
                for assignment in of_kind(function, ast.Assign)
                if any(getattr(t, "id", "") == name for t in assignment.targets)
            ]
            others = [p for p in of_kind(function, ast.Name) if p.id == name and not isinstance(p.ctx, ast.Load)]
            return _type_of(bound[0].value, function, depth + 1) if len(bound) == 1 == len(others) else None
        case ast.Call():
            arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "dtype")]
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if name in ("double", "bfloat16", "cfloat", "cdouble") and not node.args:
                return _NAMES[name]
            if name in _MAKERS:
                return _MAKERS[name]
            kinds = [_NAMES[part.attr] for part in arguments if isinstance(part, ast.Attribute) and part.attr in _NAMES]
            if kinds and (name in ("to", "type") or any(word.arg == "dtype" for word in node.keywords)):
                return kinds[0]
            if name in _KEEPING and owner is not None:
                return _type_of(owner, function, depth)
    return None


_KEEPING = frozenset(
    {"unsqueeze", "squeeze", "view", "reshape", "clone", "contiguous", "detach", "t", "permute", "transpose"}
)


def _is_cast(code: Code, name: str) -> bool:
    """Whether every method that reads an attribute casts it where it does."""
    reads = casts = 0
    for function in code.methods:
        for node in of_kind(function.node, ast.Attribute):
            if node.attr == name and isinstance(node.ctx, ast.Load) and getattr(node.value, "id", "") == "self":
                around = parents_in(function.node).get(node)
                reads += 1
                casts += isinstance(around, ast.Attribute) and around.attr in ("to", "float", "type_as", "type", "half")
    return reads == casts
