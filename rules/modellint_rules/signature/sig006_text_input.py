"""SIG006: a `forward` that is given text and tokenizes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Argument, Diagnostic, Instance, Rule, Severity, Tensor, Value, alternatives, of_kind

if TYPE_CHECKING:
    from modellint.authoring import Call, Code


class TextInput(Rule):
    """A `forward` that is given text and tokenizes it.

    ## What it does
    Finds `forward` methods, and what they always run, that hand an argument of their own to a tokenizer: one of transformers,
    `tokenizers`, open_clip or clip, or what a `tokenizer` is called with `return_tensors`.

    ## Why
    Inputs of a Core ML model are numbers. `torch.jit.trace` takes no strings. `torch.export` does, as constants: what the
    tokenizer makes of the example becomes a part of the program, and `ct.convert` refuses the input that is left.

    ## Bad
    ```python
    from torch import nn
    from transformers import CLIPTextModel, CLIPTokenizer


    class TextEncoder(nn.Module):
        def __init__(self, version):
            super().__init__()
            self.tokenizer = CLIPTokenizer.from_pretrained(version)
            self.model = CLIPTextModel.from_pretrained(version)

        def forward(self, text):
            batch = self.tokenizer(text, padding=True, return_tensors="pt")
            return self.model(input_ids=batch["input_ids"]).last_hidden_state
    ```

    ## Good
    ```python
    from torch import nn
    from transformers import CLIPTextModel


    class TextEncoder(nn.Module):
        def __init__(self, version):
            super().__init__()
            self.model = CLIPTextModel.from_pretrained(version)

        def forward(self, ids):
            return self.model(input_ids=ids).last_hidden_state
    ```

    ## Fix safety
    There is no fix: who calls the module has to tokenize.

    ## Known limits
    Only source is asked: a run takes no text. Left alone is what asks for the type of its argument (`isinstance(text, str)`), or
    tokenizes on a condition, and a tokenizer that the project wrote itself.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    - <https://apple.github.io/coremltools/docs-guides/source/model-input-and-output-types.html>
    """

    code = "SIG006"
    name = "text-input"
    severity = Severity.ERROR
    advice = "Tokenize outside of the model, and give `forward` the ids"
    only_inference = True
    needs = ("forward", frozenset({"tokenizer", "tokenize", "return_tensors", "encode_plus", "batch_encode_plus"}))
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every tokenizer that `forward` always runs what it is given."""
        if code.is_never_exported:
            return
        for readings in code.calls:
            call = readings[0]
            function = call.function
            if function not in code.in_forward or not isinstance(function, ast.FunctionDef):
                continue
            if not all(_tokenizes(reading) and _is_given_text(code, reading) for reading in readings):
                continue
            if _is_always_run(code, call, function):
                yield code.finding(
                    self,
                    call.node,
                    "`forward` is given text here and tokenizes it: neither route converts a model that takes strings",
                    statement=call.statement,
                    severity=code.severity_at(self.severity, call.node, function),
                    advice=self.advice,
                )


_TOKENIZER = r"(?:^|\.)(?:transformers|tokenizers|open_clip|clip)\..*\b(?:\w*Tokenizer(?:Fast)?|get_tokenizer)\b"
_TOKENIZE = r"(?:^|\.)(?:open_|\w+_)?clip\.(?:\w+\.)*tokenize$"
_METHODS = frozenset({"encode", "encode_plus", "batch_encode_plus", "tokenize", "encode_batch"})


def _tokenizes(call: Call) -> bool:
    """Whether a call runs a tokenizer of text."""
    if call.training or not call.exported or call.building:
        return False
    if re.search(_TOKENIZE, call.name):
        return True
    tokenizer = call.receiver if call.method in _METHODS else call.callee
    parts = alternatives(tokenizer) if tokenizer is not None else ()
    if parts and all(isinstance(part, Instance) and re.search(_TOKENIZER, part.name) for part in parts):
        return True
    spelled = getattr(call.node.func, "attr", getattr(call.node.func, "id", ""))
    return "tokenizer" in spelled and "return_tensors" in call.arguments.keywords


def _is_given_text(code: Code, call: Call) -> bool:
    """Whether what is tokenized is an argument of `forward`."""
    text = call.arguments.get(0, "text")
    parts: tuple[Value, ...] = tuple(alternatives(text)) if text is not None else ()
    names = {part.name for part in parts if isinstance(part, Argument) and not part.element}
    names |= {part.name for part in parts if isinstance(part, Tensor) and part.origin == "argument"}
    forward = next((method.node for method in code.methods if getattr(method.node, "name", "") == "forward"), None)
    if not parts or len(names) != 1 or not isinstance(forward, ast.FunctionDef):
        return False
    placed = [*forward.args.posonlyargs, *forward.args.args]
    required = [part.arg for part in placed[1 : len(placed) - len(forward.args.defaults)]]
    return names <= set(required)


def _is_always_run(code: Code, call: Call, function: ast.FunctionDef) -> bool:
    """Whether `forward` comes to a call whatever it is given."""
    if any(True for _ in code.conditions(call.node, function)) or _asks_for_type(function):
        return False
    if function.name == "forward":
        return True
    callers = [reading for readings in code.calls for reading in readings if reading.method == function.name]
    return any(
        isinstance(caller.function, ast.FunctionDef)
        and caller.function.name == "forward"
        and not any(True for _ in code.conditions(caller.node, caller.function))
        and not _asks_for_type(caller.function)
        for caller in callers
    )


def _asks_for_type(function: ast.FunctionDef) -> bool:
    return any(
        getattr(call.func, "id", getattr(call.func, "attr", "")) in ("isinstance", "is_tensor", "type")
        for call in of_kind(function, ast.Call)
    )
