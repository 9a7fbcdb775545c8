"""Exported classes, likely to be exported as they are: what the rules about outputs share."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from modellint.authoring import called_name, of_kind, once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modellint.authoring import Code, Value

_PARTS = (
    r"(?:Block|Layer|Heads?|Encoder|Decoder|Cell|Neck|Backbone|Stem|Stage|Module|Mixin|Gate|Router|Experts?|MoE|Rope|RoPE|Sampler"
    r"|Generator|Wrapper|Extractor|Features?|Adapter|Projector|Projection|Predictor|Frontend|Separator|Quantizer|Codebook|Hook"
    r"|Getter|Parallel|Matcher|Anchors?|Memory|Reader|Tokenizer|Processor|Tower|Branch|Unit|Bottleneck|Mixer|Fusion|Agent|Policy"
    r"|Kernel|Flow|Prior|Posterior|Likelihood|Guide|Distribution|Context|Controller|Estimator|Dict|Template|Interface|Linear|FF"
    r"|EMA|Ema|MLP|Mlp|FFN|FeedForward|Attn|MHA|Bundler|Aggregator|Patchify|VAD|Detect|Att|Attn\d*)\d*[dD]?$"
    r"|Attention|Pyramid|FPN|RPN|Ro[iI](?:[A-Z]|$)|Embed|Pool|Norm|Conv|LSTM|GRU|RNN|Aggregat|Dropout|Discriminator|Critic|Augment"
    r"|Transform(?!er)|Position|^(?:_|Base|Abs|Abstract)"
)
"""How classes are called that are a part of another, or no model."""
_FOLDERS = (
    r"layers?|modules?|blocks?|ops|components|attentions?|heads?|necks?|backbones?|utils|transforms|data|losses|tasks?"
)


def is_outermost(code: Code) -> bool:
    """Whether nothing says that a class is a part of another: neither its name nor another class of the file."""
    name = code.name or ""
    if code.ref is None or code.ref.within or re.search(_PARTS, name) or code.is_never_exported:
        return False
    if any(re.fullmatch(_FOLDERS, part) for part in code.file.path.removesuffix(".py").split("/")[-4:]):
        return False
    for node in code.file.tree.body:
        if node is code.ref.node:
            continue
        if (
            isinstance(node, (ast.ClassDef, ast.FunctionDef))
            and name in once(node, "_names_in", _names_in)
            and not _gives_model(node, name)
        ):
            return False
    return True


def _names_in(node: ast.ClassDef | ast.FunctionDef) -> frozenset[str]:
    return frozenset(part.id for part in of_kind(node, ast.Name))


_BUILDERS = r"(?:build|make|create|get|load|setup)(?:_(?:model|net|network|detector))?"
"""How functions are called that give a model, and no part of one."""


def _gives_model(function: ast.ClassDef | ast.FunctionDef, name: str) -> bool:
    """Whether a function builds a class and gives it back as the model: `model = Net(…)`, `return model, criterion`."""
    if isinstance(function, ast.ClassDef) or not re.fullmatch(_BUILDERS, function.name):
        return False
    names = {
        target.id
        for node in of_kind(function, ast.Assign)
        if isinstance(node.value, ast.Call) and called_name(node.value) == name
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in of_kind(function, ast.Return):
        first = node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
        is_built = isinstance(first, ast.Call) and called_name(first) == name
        if is_built or (isinstance(first, ast.Name) and first.id in names):
            return True
    return False


def outputs(code: Code) -> Iterator[tuple[ast.Return, ast.expr, list[Value]]]:
    """What the class's own `forward` returns whatever flags are set, with the values that it may have."""
    assert code.ref is not None
    forward = next((statement for statement in code.ref.node.body if getattr(statement, "name", "") == "forward"), None)
    if not isinstance(forward, ast.FunctionDef) or any(True for _ in of_kind(forward, ast.Yield)):
        return
    if any(not isinstance(decorator, ast.Name) or decorator.id != "override" for decorator in forward.decorator_list):
        return
    for node, plain in code.flow.plain_returns.items():
        if node in forward.body and all(plain) and node.value is not None:
            yield node, node.value, [value for at, value in code.flow.returns if at is node]
