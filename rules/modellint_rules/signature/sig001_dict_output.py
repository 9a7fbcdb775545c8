"""SIG001: a model that returns a dict."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Const,
    Container,
    Diagnostic,
    External,
    Rule,
    Severity,
    Trigger,
    Value,
    alternatives,
    dotted_name,
)
from modellint_rules.signature.exported_classes import is_outermost, outputs

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel


_BY_ROUTE = ", which `torch.jit.trace` refuses; what converts from `torch.export` has no keys"
_BY_NEITHER = ": neither route converts it, as only tensors can be outputs"


class DictOutput(Rule):
    """A model that returns a dict, or something like it.

    ## What it does
    Looks at what the model returned in the run: a dict, or an object that behaves as one (`ModelOutput` of transformers), by
    itself or inside a tuple. In source it finds `forward` methods that end by returning a dict.

    ## Why
    `torch.jit.trace` refuses a dict in its strict mode, and coremltools a traced model that returns one. What `torch.export`
    captures converts, without the keys, but only where all that the dict holds are tensors: coremltools takes no None, number or string
    for an output.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            return {"scores": self.linear(x)}


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
    There is no fix in source: callers read the keys. For the export, wrap the model in a module that returns a tuple;
    models of transformers do so with `return_dict=False`.

    ## Known limits
    In a run only what is returned for the example inputs is seen, and in source None, numbers and strings only in a dict that is
    written in the `return`. In source a class that by its name or by another class of the
    file is a part of a model is left alone, and so is a dict that a flag asks for; objects that behave as a dict, and
    dicts that hold a loss, are not reported.

    ## References
    - <https://github.com/apple/coremltools/issues/2104>
    - <https://github.com/apple/coremltools/issues/1157>
    """

    code = "SIG001"
    name = "dict-output"
    severity = Severity.WARNING
    only_for = ("coreml",)
    advice = "Return a tuple, or wrap the model for the export in a module that does"
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.RETURNS_DICT)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask what `forward` returns what it is made of."""
        if not code.shows(Trigger.RETURNS_DICT) or not is_outermost(code):
            return
        for statement, returned, values in outputs(code):
            if _holds_numbers(code, returned):
                continue
            if values and all(_is_box(part) for value in values for part in alternatives(value)):
                others = [_other(part, returned) for value in values for part in alternatives(value)]
                how = f" with {others[0]} in it{_BY_NEITHER}" if all(others) else _BY_ROUTE
                yield code.finding(
                    self,
                    statement,
                    f"the model returns a `dict`{how}",
                    statement=statement,
                    advice="Return a tuple, or wrap the model for the export in a module that does",
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the output what it is made of."""
        run = subject.run
        if run is None or run.failure is not None:
            return
        parts = list(subject.outputs)
        kinds = list(dict.fromkeys(part.type for part in parts if part.kind == "dict"))
        others = [part.type if part.type == "None" else f"a `{part.type}`" for part in parts if part.kind == "other"]
        if kinds:
            how = f", and {others[0]} in it{_BY_NEITHER}" if others else _BY_ROUTE
            yield subject.finding(
                self,
                f"the model returns a {', '.join(f'`{kind}`' for kind in kinds)}{how}",
                at=subject.returning(_is_dict),
            )


def _is_dict(value: ast.expr | None) -> bool:
    match value:
        case ast.Dict() | ast.DictComp() | ast.Call(func=ast.Name(id="dict" | "OrderedDict")):
            return True
    return False


def _other(value: Value, written: ast.expr) -> str:
    """What a dict certainly holds that is no tensor, in words; nothing where it may be filled anew."""
    if not isinstance(value, Container) or not (value.exact or value.node is written):
        return ""
    for item in value.items:
        parts = alternatives(item)
        if parts and all(isinstance(part, Const) and part.value is not ... for part in parts):
            kinds = [part.value for part in parts if isinstance(part, Const)]
            return "None" if kinds[0] is None else f"a `{type(kinds[0]).__name__}`"
    return ""


def _holds_numbers(code: Code, returned: ast.expr) -> bool:
    """Whether a dict holds what NumPy has computed and nothing else: `{"mean": np.mean(scores)}`, of which no program is made."""
    names = [dotted_name(part.func) if isinstance(part, ast.Call) else None for part in getattr(returned, "values", ())]
    symbols = [code.project.resolve(code.file, name) if name is not None else None for name in names]
    return bool(symbols) and all(isinstance(part, External) and part.name.startswith("numpy.") for part in symbols)


def _is_box(value: Value) -> bool:
    if not isinstance(value, Container) or value.kind != "dict" or not value.items:
        return False
    # What computes its own loss is called to be trained.
    return not any(isinstance(key, Const) and "loss" in str(key.value) for key in value.keys)
