"""Which classes are likely to be exported as they are: what the rules about outputs share."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from modellint.source.nodes import of_kind, walk
from modellint_rules.flow.training_only import is_for_training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modellint.source.code import Code
    from modellint.source.values import Value

_PARTS = re.compile(
    r"(?:Attention|Attn|MHA|SelfAtt\w*|Block|Layer|Head|Heads|Encoder|Decoder|Embed\w*|Cell|Neck|Backbone|Stem|Stage|Module|Base"
    r"|Mixin|MLP|Mlp|FFN|FeedForward|Conv\w*|Pool\w*|Norm\w*|Gate|Router|Experts?|MoE|Rope|RoPE|Position\w*|Dropout|Sampler"
    r"|Generator|Discriminator|Critic|Wrapper|Extractor|Features?|Adapter|Projector|Projection|Predictor|Frontend|Separator"
    r"|Quantizer|Codebook|Loss|Metric|Hook|Getter|Parallel|Matcher|Anchors?|RPN|Roi\w*|RoI\w*|FPN|Pyramid|Pruner|Memory|Reader"
    r"|Tokenizer|Processor|Transform|Augment\w*|Tower|Branch|Unit|Bottleneck|Resblock|Mixer|Fusion|Agent|Policy|Kernel|Flow"
    r"|Prior|Posterior|Likelihood|Guide|Distribution|Aggregat\w*|Context|Controller|Estimator|Dict|Template|Interface|Abs\w+)\d*[dD]?$"
)
"""How classes are called that are a part of another."""


def is_outermost(code: Code) -> bool:
    """Whether nothing says that a class is a part of another: neither its name nor another class of the file."""
    name = code.name or ""
    abstract = any(name.startswith(start) for start in ("_", "Base", "Abs", "Abstract"))
    if code.ref is None or code.ref.within or abstract or _PARTS.search(name) or is_for_training(code):
        return False
    for node in code.file.tree.body:
        if node is code.ref.node:
            continue
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and any(
            isinstance(part, ast.Name) and part.id == name for part in walk(node)
        ):
            return False
    return True


def outputs(code: Code) -> Iterator[tuple[ast.Return, ast.expr, list[Value]]]:
    """What the class's own `forward` returns whatever flags are set, with the values that it may have."""
    assert code.ref is not None
    forward = next((one for one in code.ref.node.body if getattr(one, "name", "") == "forward"), None)
    if not isinstance(forward, ast.FunctionDef) or any(True for _ in of_kind(forward, ast.Yield)):
        return
    if any(not isinstance(one, ast.Name) or one.id != "override" for one in forward.decorator_list):
        return
    for node, plain in code.flow.plain_returns.items():
        if node in forward.body and all(plain) and node.value is not None:
            yield node, node.value, [value for at, value in code.flow.returns if at is node]
