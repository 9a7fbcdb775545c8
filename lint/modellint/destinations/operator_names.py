"""Names of operators and of PyTorch's API, as people write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from modellint.data.operator_conversion import public_name

_SHORT = {
    "F.": "torch.nn.functional.",
    "nn.": "torch.nn.",
    "Tensor.": "torch.Tensor.",
    "functional.": "torch.nn.functional.",
}


def long_name(name: str) -> str:
    """A name of PyTorch's API as tables spell it: `nn.Hardshrink` as `torch.nn.Hardshrink`."""
    for short, long in _SHORT.items():
        if name.startswith(short):
            name = long + name.removeprefix(short)
    return public_name(name)


def snake_case(name: str) -> str:
    """`torch.nn.LayerNorm` as `layer_norm`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.rpartition(".")[2]).lower()


def operator_kind(name: str, known: Collection[str]) -> str:
    """The operator that a name is likely to stand for: `nn.LayerNorm` is `layer_norm`, `torch.Tensor.add_` is `add`."""
    last = name.rpartition("::")[2].removeprefix("torch.ops.aten.")
    kinds = [last, last.removesuffix(".default"), last.partition(".")[0]]
    word = last.rpartition(".")[2]
    snake = snake_case(last)
    kinds += [word, word.rstrip("_"), snake, snake.replace("_", ""), re.sub(r"_?[123]d$", "", snake)]
    if not name.startswith(("torch.", "aten::")) and "." in name and last not in known:
        return last
    return next((kind for kind in kinds if kind in known), last)


def unknown_operator(name: str, known: Collection[str]) -> str:
    """What to say of a name that stands for no operator: with the nearest that are known."""
    near = difflib.get_close_matches(long_name(name), known, 3) or difflib.get_close_matches(
        name.rpartition(".")[2].rpartition("::")[2].lower(), known, 3
    )
    return f"no operator is known as {name!r}" + (f": did you mean {' or '.join(near)}?" if near else "")
