"""The text of ``CustomPReLU`` for files that import nothing of modellint. Needs no torch."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

NAME = "CustomPReLU"


def custom_prelu_text(nn_name: str = "nn", torch_name: str = "torch") -> str:
    """The class statement, for a file in which ``torch.nn`` and ``torch`` have these names."""
    names = {"nn.": nn_name + ".", "torch.": torch_name + "."}
    return re.sub(r"(?<![\w.`])(?:nn|torch)\.", lambda match: names[match[0]], _class_statement())


@cache
def _class_statement() -> str:
    text = Path(__file__).with_name("prelu.py").read_text("utf-8")
    (node,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == NAME)
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    # The marks for this project's linter are nothing to others.
    return "".join(re.sub(r" +# noqa.*", "", line) + "\n" for line in lines)
