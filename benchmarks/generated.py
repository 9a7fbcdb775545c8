"""Small classes with correct parameter containers, in many forms, from a seed.

Real code holds too few ``ParameterList`` and ``ParameterDict`` to measure recall on. Every text is valid Python and
holds one container of the asked kind; the benchmark undoes it as it does in real files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

ATTRIBUTES = ("weights", "scales", "biases", "tokens", "embeddings", "prompts", "gammas", "_tables", "lora_a")
CLASSES = ("Mixer", "Prompt", "Experts", "Scale", "Adapter", "Head", "TokenBank", "LowRank")
TENSORS = (
    "{t}.zeros(dim)",
    "{t}.randn(dim, dim) * 0.02",
    "{t}.empty(dim)",
    "{t}.ones(1, dim, 1)",
    "{t}.full((dim,), 0.1)",
    "{t}.rand(dim).mul(2.0)",
)
DECOYS = (
    "self.dim = dim",
    "self.names = ['a', 'b']",
    "self.sizes = [dim, dim * 2]",
    "self.options = {'rate': 0.1}",
    "self.cache = None",
)


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a file imports what it needs."""

    lines: str
    torch: str
    module: str
    parameter: str
    list: str
    dict: str


def _spelling(lines: str, torch: str, nn: str) -> Spelling:
    """A file that reaches everything through one name for ``torch.nn``."""
    return Spelling(
        lines, torch, *(f"{nn}.{name}" for name in ("Module", "Parameter", "ParameterList", "ParameterDict"))
    )


SPELLINGS = (
    _spelling("import torch\nfrom torch import nn", "torch", "nn"),
    _spelling("import torch\nimport torch.nn as nn", "torch", "nn"),
    _spelling("import torch", "torch", "torch.nn"),
    _spelling("import torch\nfrom torch import nn as n", "torch", "n"),
    Spelling(
        "import torch as th\nfrom torch.nn import Module, Parameter, ParameterDict, ParameterList",
        "th",
        "Module",
        "Parameter",
        "ParameterList",
        "ParameterDict",
    ),
    Spelling(
        "import torch\nfrom torch.nn import Module as Layer, ParameterDict as PD, ParameterList as PL\n"
        "from torch.nn.parameter import Parameter",
        "torch",
        "Layer",
        "Parameter",
        "PL",
        "PD",
    ),
)

# {C} the container, {X} the attribute, {P} and {Q} parameter expressions. A line "---" begins further methods,
# a line "===" begins functions of the module.
LIST_FORMS = {
    "literal": "self.{X} = {C}([{P}, {Q}])",
    "comprehension": "self.{X} = {C}([{P} for _ in range(depth)])",
    "generator": "self.{X} = {C}({P} for _ in range(depth))",
    "append in loop": "self.{X} = {C}()\nfor _ in range(depth):\n    self.{X}.append({P})",
    "append a local": "self.{X} = {C}([])\nfor _ in range(depth):\n    item = {P}\n    self.{X}.append(item)",
    "extend": "self.{X} = {C}()\nself.{X}.extend([{P}, {Q}])",
    "augmented": "self.{X} = {C}()\nself.{X} += [{P} for _ in range(depth)]",
    "local list": "items = []\nfor _ in range(depth):\n    items.append({P})\nself.{X} = {C}(items)",
    "local literal": "first = {P}\nsecond = {Q}\nself.{X} = {C}([first, second])",
    "local container": "items = {C}()\nfor _ in range(depth):\n    items.append({P})\nself.{X} = items",
    "annotated": "self.{X}: {C} = {C}([{P} for _ in range(depth)])",
    "conditional expression": "self.{X} = {C}([{P}]) if depth > 1 else None",
    "conditional": "if depth > 1:\n    self.{X} = {C}([{P}, {Q}])\nelse:\n    self.{X} = None",
    "filled by a helper": "self.{X} = {C}()\nself._fill(depth, dim)\n---\ndef _fill(self, depth, dim):\n"
    "    for _ in range(depth):\n        self.{X}.append({P})",
    "made by a helper": "self.{X} = self._make(depth, dim)\n---\ndef _make(self, depth, dim):\n"
    "    return {C}([{P} for _ in range(depth)])",
    "made by a helper, local": "self.{X} = self._make(depth, dim)\n---\ndef _make(self, depth, dim):\n"
    "    made = {C}()\n    for _ in range(depth):\n        made.append({P})\n    return made",
    "items from a helper": "self.{X} = {C}(self._items(depth, dim))\n---\ndef _items(self, depth, dim):\n"
    "    return [{P} for _ in range(depth)]",
    "items from a function": "self.{X} = {C}(_items(depth, dim))\n===\ndef _items(depth, dim):\n"
    "    return [{P} for _ in range(depth)]",
    "one name for two": "shared = [{P} for _ in range(depth)]\nself.{X} = {C}(shared)\nself.count = len(shared)",
    "outside __init__": "self.build(depth, dim)\n---\ndef build(self, depth, dim):\n"
    "    self.{X} = {C}([{P} for _ in range(depth)])",
    "nested loops": "self.{X} = {C}()\nfor _ in range(depth):\n    for _ in range(2):\n        self.{X}.append({P})",
    "filtered": "self.{X} = {C}([{P} for i in range(depth) if i % 2 == 0])",
}
DICT_FORMS = {
    "literal": "self.{X} = {C}({{'a': {P}, 'b': {Q}}})",
    "comprehension": "self.{X} = {C}({{str(i): {P} for i in range(depth)}})",
    "f-string keys": "self.{X} = {C}({{f'k{{i}}': {P} for i in range(depth)}})",
    "set in loop": "self.{X} = {C}()\nfor i in range(depth):\n    self.{X}[str(i)] = {P}",
    "set one by one": "self.{X} = {C}({{}})\nself.{X}['a'] = {P}\nself.{X}['b'] = {Q}",
    "set a local": "self.{X} = {C}()\nfor name in ('q', 'k'):\n    value = {P}\n    self.{X}[name] = value",
    "update": "self.{X} = {C}()\nself.{X}.update({{'a': {P}, 'b': {Q}}})",
    "update with a local": "more = {{'a': {P}}}\nself.{X} = {C}()\nself.{X}.update(more)",
    "dict call": "self.{X} = {C}(dict(a={P}, b={Q}))",
    "local dict": "items = {{}}\nfor i in range(depth):\n    items[str(i)] = {P}\nself.{X} = {C}(items)",
    "local literal": "items = {{'a': {P}, 'b': {Q}}}\nself.{X} = {C}(items)",
    "local container": "items = {C}()\nfor i in range(depth):\n    items[str(i)] = {P}\nself.{X} = items",
    "pairs": "self.{X} = {C}([('a', {P}), ('b', {Q})])",
    "annotated": "self.{X}: {C} = {C}({{'a': {P}}})",
    "conditional expression": "self.{X} = {C}({{'a': {P}}}) if depth > 1 else None",
    "conditional": "if depth > 1:\n    self.{X} = {C}({{'a': {P}}})\nelse:\n    self.{X} = None",
    "filled by a helper": "self.{X} = {C}()\nself._fill(depth, dim)\n---\ndef _fill(self, depth, dim):\n"
    "    for i in range(depth):\n        self.{X}[str(i)] = {P}",
    "made by a helper": "self.{X} = self._make(depth, dim)\n---\ndef _make(self, depth, dim):\n"
    "    return {C}({{str(i): {P} for i in range(depth)}})",
    "made by a helper, local": "self.{X} = self._make(depth, dim)\n---\ndef _make(self, depth, dim):\n"
    "    made = {C}()\n    for i in range(depth):\n        made[str(i)] = {P}\n    return made",
    "items from a helper": "self.{X} = {C}(self._items(depth, dim))\n---\ndef _items(self, depth, dim):\n"
    "    return {{str(i): {P} for i in range(depth)}}",
    "items from a function": "self.{X} = {C}(_items(depth, dim))\n===\ndef _items(depth, dim):\n"
    "    return {{'a': {P}, 'b': {Q}}}",
    "outside __init__": "self.build(depth, dim)\n---\ndef build(self, depth, dim):\n"
    "    self.{X} = {C}({{str(i): {P} for i in range(depth)}})",
}
LIST_USES = (
    "for item in self.{X}:\n    x = x + item.sum()\nreturn x",
    "return x * self.{X}[0].mean()",
    "return sum(x * w.mean() for w in self.{X})",
    "for i in range(len(self.{X})):\n    x = x * self.{X}[i].sum()\nreturn self.proj(x)",
)
DICT_USES = (
    "for name, item in self.{X}.items():\n    x = x + item.sum()\nreturn x",
    "return x + sum(value.mean() for value in self.{X}.values())",
    "if 'a' in self.{X}:\n    x = x * self.{X}['a'].mean()\nreturn self.proj(x)",
)


@dataclass(frozen=True, slots=True)
class Generated:
    """One text and the name of its form."""

    name: str
    form: str
    text: str


def generate(kind: str, count: int, seed: int) -> Iterator[Generated]:
    """``count`` texts for ``ParameterList`` or ``ParameterDict``; every form comes round in turn."""
    chance = random.Random(f"{kind} {seed}")
    forms = list((LIST_FORMS if kind == "ParameterList" else DICT_FORMS).items())
    uses = LIST_USES if kind == "ParameterList" else DICT_USES
    for number in range(count):
        form, template = forms[number % len(forms)]
        yield Generated(f"generated_{kind.lower()}_{number:04}.py", form, _text(chance, kind, template, uses))


def _text(chance: random.Random, kind: str, template: str, uses: tuple[str, ...]) -> str:
    spelling = chance.choice(SPELLINGS)
    attribute = chance.choice(ATTRIBUTES)
    container = spelling.list if kind == "ParameterList" else spelling.dict

    def parameter() -> str:
        extra = chance.choice(("", "", "", ", requires_grad=False"))
        return f"{spelling.parameter}({chance.choice(TENSORS).format(t=spelling.torch)}{extra})"

    filled = template.format(C=container, X=attribute, P=parameter(), Q=parameter())
    filled, _, functions = filled.partition("\n===\n")
    body, _, methods = filled.partition("\n---\n")
    name, base = chance.choice(CLASSES), spelling.module
    parts = [spelling.lines]
    if functions:
        parts.append(functions)
    if chance.random() < 0.3:
        base = f"Base{name}"
        parts.append(f"class {base}({spelling.module}):\n    def forward(self, x):\n        return x")
    lines = ["super().__init__()"]
    lines += chance.sample(DECOYS, chance.randint(0, 2))
    package, _, _ = spelling.module.rpartition(".")
    lines.append(f"self.proj = {package}.Linear(dim, dim)" if package else "self.proj = abs")
    lines.insert(chance.randint(1, len(lines)), body)
    methods_text = [
        "def __init__(self, dim=8, depth=2):\n" + _indent("\n".join(lines)),
        *([methods] if methods else []),
        "def forward(self, x):\n" + _indent(chance.choice(uses).format(X=attribute)),
    ]
    head = f"class {name}({base}):\n"
    if chance.random() < 0.3:
        head += f'    """{name} with its own parameters."""\n\n'
    parts.append(head + _indent("\n\n".join(methods_text)))
    text = "\n\n\n".join(parts) + "\n"
    return _restyled(chance, text)


def _restyled(chance: random.Random, text: str) -> str:
    """Another indent, now and then."""
    indent = chance.choice(("    ", "    ", "  ", "\t"))
    return "\n".join(
        indent * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ") for line in text.split("\n")
    )


def _indent(text: str) -> str:
    return "\n".join("    " + line if line else line for line in text.split("\n"))
