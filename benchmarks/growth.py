"""How the time of a source check grows with a file: texts of one shape at an eighth, a quarter, a half and the whole of a size.

    python benchmarks/growth.py [SHAPE...] [--bytes N] [--seconds S] [--list]

Each shape is a way to write a file as long as one likes: so many attributes, branches, views, classes. The text is given to
``modellint.check_source`` in a process of its own, at four sizes that double, and CPU time is taken. The exponent is the slope
of the time from a quarter of the size to the whole, on a logarithmic scale: 1 is proportional, 2 is quadratic. The smallest size
is left out, as what costs the same for every text weighs on it. A text that Python's own parser refuses is none of ours: such
shapes are nested as deep as it allows, and repeated.

The exit status is 1 where an exponent is above 1.3 and the time above a second, where the largest text takes more than
``--seconds``, where a rule failed (LNT004) or a class was not read (LNT005), or where a shape that gives findings when it is short
gives none when it is long.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

HIGHEST = 1.3
"""The exponent that is allowed."""
SLOW = 1.0
"""Seconds below which an exponent says nothing."""
PARTS = (8, 4, 2, 1)
DEEP = 80
"""How deep blocks and brackets are nested; Python allows 100 blocks and 200 brackets."""
CASES = 1500
"""How many cases a branch has; Python compiles no branch of more than some 3,000."""

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n"
Lines = Iterable[str]


def module(
    init: Lines = (), forward: Lines = ("return x",), name: str = "Net", base: str = "nn.Module", arguments: str = "x"
) -> str:
    """A module class with these statements."""
    return (
        f"class {name}({base}):\n    def __init__(self):\n        super().__init__()\n"
        + "".join(f"        {line}\n" for line in init)
        + f"\n    def forward(self, {arguments}):\n"
        + "".join(f"        {line}\n" for line in forward)
        + "\n\n"
    )


def flow(before: Lines, each: Callable[[int], Lines], after: Lines, n: int) -> str:
    """A module whose ``forward`` does something n times."""
    return HEAD + module(forward=[*before, *(line for i in range(n) for line in each(i)), *after])


def both(init: Callable[[int], Lines], forward: Callable[[int], Lines], n: int, after: Lines = ("return x",)) -> str:
    """A module with n parts in ``__init__`` and in ``forward``."""
    return HEAD + module(
        [line for i in range(n) for line in init(i)], [*(line for i in range(n) for line in forward(i)), *after]
    )


def methods(
    each: Callable[[int], str], last: str, n: int, init: Lines = ("self.h0()",), forward: Lines = ("return x",)
) -> str:
    """A module with n methods besides ``__init__`` and ``forward``."""
    text = "".join("    " + line + "\n" for i in range(n) for line in each(i).splitlines())
    return (
        HEAD
        + module(init, forward).rstrip("\n")
        + "\n\n"
        + text
        + "".join("    " + line + "\n" for line in last.splitlines())
    )


def blocks(head: Callable[[int], str], inside: str, n: int) -> str:
    """n blocks in one another, as many stacks of them as that takes."""
    lines: list[str] = []
    for first in range(0, n, DEEP):
        depth = min(DEEP, n - first)
        lines += ["    " * i + head(i) for i in range(depth)]
        lines.append("    " * depth + inside)
    return HEAD + module(forward=[*lines, "return x"])


def brackets(opened: str, inside: str, closed: str, n: int, form: str = "x = {}") -> str:
    """n brackets in one another, as many stacks of them as that takes."""
    lines = []
    for first in range(0, n, DEEP):
        depth = min(DEEP, n - first)
        lines.append(form.format(opened * depth + inside + closed * depth))
    return HEAD + module(["self.a = nn.ReLU()"], [*lines, "return x"])


def repeated(text: Callable[[int], str], n: int) -> str:
    return HEAD + "".join(text(i) for i in range(n))


def _views(n: int) -> str:
    return flow(["v0 = x * 1"], lambda i: [f"v{i + 1} = v{i}.view(-1)", f"v{i + 1}.add_(1)"], ["return v0"], n)


def _sequences(n: int) -> str:
    layers = (
        "nn.Conv2d(wide, wide, 3)",
        "nn.BatchNorm2d(wide)",
        "nn.ReLU()",
        "nn.Upsample(scale_factor=2)",
        "nn.MaxPool2d(2)",
    )
    choices = "".join(
        f"        {'el' if at else ''}if kind == {'CNRUM'[at]!r}:\n            layers.append({layer})\n"
        for at, layer in enumerate(layers)
    )
    flat = (
        "def flat(*parts):\n    found = []\n    for part in parts:\n        if isinstance(part, nn.Sequential):\n"
        "            for inner in part.children():\n                found.append(inner)\n"
        "        elif isinstance(part, nn.Module):\n            found.append(part)\n    return nn.Sequential(*found)\n\n\n"
    )
    row = f"def row(wide, kinds):\n    layers = []\n    for kind in kinds:\n{choices}    return flat(*layers)\n\n\n"
    parts = ["part0 = row(1, kinds)", *(f"part{i} = flat(part{i - 1}, row({i + 1}, kinds))" for i in range(1, n))]
    net = module([*parts, f"self.all = part{n - 1}"], ["return self.all(x)"])
    return HEAD + flat + row + net.replace("__init__(self)", "__init__(self, kinds='CNR')")


def _inherited(n: int) -> str:
    first = module(["self.a = [nn.Linear(2, 2)]"], name="C0")
    return (
        HEAD
        + first
        + "".join(module([f"self.b{i} = [nn.Linear(2, 2)]"], name=f"C{i}", base=f"C{i - 1}") for i in range(1, n))
    )


NAMED: dict[str, Callable[[int], str]] = {
    "buffer bound anew": lambda n: both(
        lambda i: [f'self.register_buffer("b", torch.zeros({i}))'], lambda i: [f"self.b = self.b + {i}"], n
    ),
    "attribute bound anew": lambda n: both(
        lambda i: [f"self.a = [nn.Linear({i}, 2)]"], lambda i: ["x = self.a[0](x)"], n
    ),
    "tensor attribute bound anew": lambda n: both(
        lambda i: [f"self.t = torch.zeros({i})"], lambda i: [f"x = x + self.t * {i}"], n
    ),
    "branch and write": lambda n: flow(
        ["y = x * 1"], lambda i: [f"if x.shape[0] > {i}:", f"    y[{i}] = {i}"], ["return y"], n
    ),
    "named part read and written": lambda n: flow(
        ["y = x.clone()", "part = y[:, 1:]"], lambda i: [f"part[{i}] = part[{i + 1}]"], ["return part * 1, y"], n
    ),
    "named parts read and written": lambda n: flow(
        ["y = x.clone()"], lambda i: [f"part = y[{i}]", "part[1] = part[0]"], ["return part * 1, y"], n
    ),
    "constants that rule branches out": lambda n: flow(
        ["flip = None"],
        lambda i: [f"if flip == {i}:", "    x = x.float().clone()", "    x[0].mul_(3)"],
        ["return x"],
        n,
    ),
    "loops over lists that loops filled": lambda n: flow(
        ["parts = []", "for i in range(4):", "    parts.append(x[:, i])", "y = torch.stack(parts)"],
        lambda i: ["for part in y:", "    x = x + part"],
        ["return x"],
        n,
    ),
    "branch and bind and write": lambda n: flow(
        ["y = x * 1"], lambda i: [f"if x.shape[0] > {i}:", "    y = y[1:]", "y.add_(1)"], ["return y"], n
    ),
    "chain of views": _views,
    "chain of views, written at the end": lambda n: flow(
        ["v0 = x * 1"], lambda i: [f"v{i + 1} = v{i}[1:]"], [f"v{n}.add_(1)", "return v0"], n
    ),
    "views of one name": lambda n: flow(["v = x * 1"], lambda i: ["v = v.view(-1)"], ["v.add_(1)", "return x + v"], n),
    "views of one name, each written": lambda n: flow(
        ["v = x * 1"], lambda i: ["v = v[1:]", "v.add_(1)"], ["return x + v"], n
    ),
    "tensor attributes": lambda n: both(lambda i: [f"self.t{i} = torch.zeros(3)"], lambda i: [f"x = x + self.t{i}"], n),
    "buffers": lambda n: both(
        lambda i: [f'self.register_buffer("t{i}", torch.zeros(3))'], lambda i: [f"x = x + self.t{i}"], n
    ),
    "buffers updated in place": lambda n: both(
        lambda i: [f'self.register_buffer("t{i}", torch.zeros(3))'], lambda i: [f"self.t{i}.add_(x.mean())"], n
    ),
    "buffers updated by +=": lambda n: both(
        lambda i: [f'self.register_buffer("t{i}", torch.zeros(3))'], lambda i: [f"self.t{i} += 1"], n
    ),
    "one buffer updated in place": lambda n: (
        HEAD
        + module(
            ['self.register_buffer("t", torch.zeros(3))'],
            [*(f"self.t.add_({i})" for i in range(n)), "return x + self.t"],
        )
    ),
    "views each written to": lambda n: flow(
        ["y = x * 1"], lambda i: [f"v{i} = y[{i}]", f"v{i}.add_(1)"], ["return y"], n
    ),
    "torch.add(alpha=)": lambda n: flow([], lambda i: [f"x = torch.add(x, x, alpha={i})"], ["return x"], n),
    "torch.add(alpha=) under names": lambda n: flow(
        ["y0 = x"], lambda i: [f"y{i + 1} = torch.add(y{i}, x, alpha=2)"], [f"return y{n}"], n
    ),
    "list attributes": lambda n: both(
        lambda i: [f"self.a{i} = [nn.Linear(2, 2)]"], lambda i: [f"x = self.a{i}[0](x)"], n
    ),
    "writes through one view": lambda n: flow(["y = x * 1", "v = y[0]"], lambda i: [f"v.add_({i})"], ["return y"], n),
    "item writes through one view": lambda n: flow(
        ["y = x * 1", "v = y[0]"], lambda i: [f"v[{i}] = {i}"], ["return y"], n
    ),
    "chain of methods of __init__": lambda n: methods(
        lambda i: f"def h{i}(self):\n    self.a{i} = [nn.Linear(1, 1)]\n    self.h{i + 1}()\n",
        f"def h{n}(self):\n    pass\n",
        n,
        forward=["return self.a0[0](x)"],
    ),
    "chain of methods of forward": lambda n: methods(
        lambda i: f"def h{i}(self, x):\n    y = x.view(-1)\n    y.add_(1)\n    return self.h{i + 1}(y)\n",
        f"def h{n}(self, x):\n    return x\n",
        n,
        init=(),
        forward=["return self.h0(x)"],
    ),
    "chain of functions": lambda n: (
        repeated(lambda i: f"def f{i}(x):\n    return f{i + 1}(x[0])\n\n\n", n)
        + f"def f{n}(x):\n    return x.add_(1)\n\n\n"
        + module(forward=["return f0(x)"])
    ),
    "views in a loop": lambda n: flow(
        ["y = x * 1"], lambda i: ["for i in range(3):", "    v = y[i]", "    v.add_(1)"], ["return y"], n
    ),
    "views in one loop": lambda n: flow(
        ["y = x * 1", "for i in range(3):"], lambda i: [f"    v{i} = y[i]", f"    v{i}.add_(1)"], ["return y"], n
    ),
    "arguments changed": lambda n: (
        HEAD
        + module(
            forward=[*(f"a{i}.add_(1)" for i in range(n)), "return a0"], arguments=", ".join(f"a{i}" for i in range(n))
        )
    ),
    "one argument changed": lambda n: flow([], lambda i: [f"x.add_({i})"], ["return x"], n),
    "views of an argument changed": lambda n: flow([], lambda i: [f"x[{i}].add_(1)"], ["return x"], n),
    "whiles": lambda n: flow([], lambda i: [f"while x.shape[0] < {i}:", "    x = torch.cat([x, x])"], ["return x"], n),
    "whiles that write": lambda n: flow(
        ["y = x * 1"], lambda i: [f"while y.shape[0] < {i}:", "    y.add_(1)"], ["return y"], n
    ),
}
"""Shapes that cost the square of their length once, and their neighbours."""

OTHERS: dict[str, Callable[[int], str]] = {
    "classes": lambda n: repeated(
        lambda i: module(["self.a = [nn.Linear(2, 2)]"], ["return self.a[0](x)"], f"N{i}"), n
    ),
    "classes without a finding": lambda n: repeated(
        lambda i: module(["self.a = nn.Linear(2, 2)"], ["return self.a(x)"], f"N{i}"), n
    ),
    "classes each of the one before": _inherited,
    "sequences that take in the layers of others": _sequences,
    "empty classes each of the one before": lambda n: (
        HEAD
        + module(["self.a = [nn.Linear(2, 2)]"], name="C0")
        + "".join(f"class C{i}(C{i - 1}):\n    pass\n\n\n" for i in range(1, n))
    ),
    "a class of many bases": lambda n: (
        repeated(lambda i: f"class M{i}:\n    pass\n\n\n", n)
        + module(["self.a = [nn.Linear(2, 2)]"], base=", ".join(f"M{i}" for i in range(n)) + ", nn.Module")
    ),
    "classes in classes": lambda n: (
        HEAD
        + "".join(
            "".join("    " * i + f"class C{first}_{i}(nn.Module):\n" for i in range(min(DEEP, n - first)))
            + "    " * min(DEEP, n - first)
            + "pass\n"
            for first in range(0, n, DEEP)
        )
    ),
    "functions in functions": lambda n: blocks(lambda i: f"def f{i}(y):", "return y.view(-1)", n),
    "submodules": lambda n: both(lambda i: [f"self.a{i} = nn.Linear(2, 2)"], lambda i: [f"x = self.a{i}(x)"], n),
    "calls in calls": lambda n: brackets("self.a(", "x", ")", n),
    "modules in modules": lambda n: (
        HEAD
        + module(
            [f"self.a{i} = " + "nn.Sequential(" * DEEP + "nn.ReLU()" + ")" * DEEP for i in range(max(1, n // DEEP))]
        )
    ),
    "methods of methods": lambda n: flow([], lambda i: ["x = x" + ".relu()" * DEEP], ["return x"], max(1, n // DEEP)),
    "one chain of methods": lambda n: flow([], lambda i: ["return x" + ".relu()" * n], [], 1),
    "one sum": lambda n: flow([], lambda i: ["return x" + " + x" * n], [], 1),
    "sums": lambda n: flow([], lambda i: ["x = x" + " + x" * DEEP], ["return x"], max(1, n // DEEP)),
    "lines that go on": lambda n: flow([], lambda i: ["return x" + " \\\n + x" * DEEP], [], max(1, n // DEEP)),
    "parentheses": lambda n: brackets("(", "x", ")", n),
    "branches": lambda n: flow([], lambda i: [f"if x.shape[0] > {i}:", f"    x = x * {i}"], ["return x"], n),
    "branches with a name each": lambda n: flow(
        [], lambda i: [f"if x.shape[0] > {i}:", f"    y{i} = x * {i}"], ["return x"], n
    ),
    "branches with an attribute each": lambda n: (
        HEAD
        + module(line for i in range(n) for line in (f"if torch.rand(1) > {i}:", f"    self.a{i} = [nn.Linear(1, 1)]"))
    ),
    "branches that bind one attribute": lambda n: (
        HEAD + module(line for i in range(n) for line in (f"if torch.rand(1) > {i}:", "    self.a = [nn.Linear(1, 1)]"))
    ),
    "branches that append": lambda n: (
        HEAD
        + module(
            [
                "self.a = []",
                *(
                    line
                    for i in range(n)
                    for line in (f"if torch.rand(1) > {i}:", "    self.a.append(nn.Linear(1, 1))")
                ),
            ]
        )
    ),
    "branches that bind either way": lambda n: (
        HEAD
        + module(
            [
                "a = []",
                *(
                    line
                    for i in range(n)
                    for line in (f"if c{i}:", f"    a = [nn.Linear({i}, 1)]", "else:", "    a = a + [nn.Linear(1, 1)]")
                ),
                "self.a = a",
            ]
        )
    ),
    "branches in branches": lambda n: blocks(lambda i: f"if x.shape[0] > {i}:", "x = x * 2", n),
    # From some 6,000 cases on Python's parser refuses a branch, which libcst's then reads at several times the cost.
    "a branch of many cases": lambda n: flow(
        [],
        lambda i: [f"{'elif' if i % CASES else 'if'} x.shape[0] == {i}:", f"    x = x.view(-1, {i})"],
        ["return x"],
        n,
    ),
    "match": lambda n: flow(
        ["match x.dim():"], lambda i: [f"    case {i}:", f"        x = x.view(-1, {i})"], ["return x"], n
    ),
    "loops with a name each": lambda n: flow(
        [], lambda i: [f"for i{i} in range(3):", f"    y{i} = x.view(-1, {i})"], ["return x"], n
    ),
    "names forgotten": lambda n: flow(
        [], lambda i: [f"y{i} = x.view(-1, {i})", f"if x.shape[0] > {i}:", f"    del y{i // 2}"], ["return x"], n
    ),
    "shapes of names": lambda n: flow(
        [], lambda i: [f"y{i} = x.view(-1, {i})", f"b{i}, c{i} = y{i}.shape"], ["return x"], n
    ),
    "returns": lambda n: flow([], lambda i: [f"if x.shape[0] > {i}:", f"    return x.view(-1, {i})"], ["return x"], n),
    "returns among attributes": lambda n: (
        HEAD
        + module(
            line
            for i in range(n)
            for line in (f"self.a{i} = nn.Linear(1, 1)", f"if torch.rand(1) > {i}:", "    return")
        )
    ),
    "functions among names": lambda n: flow(
        [], lambda i: [f"y{i} = x.view(-1, {i})", f"f{i} = lambda z: z + y{i}"], ["return x"], n
    ),
    "comprehensions among names": lambda n: flow(
        [], lambda i: [f"y{i} = [part.view({i}) for part in x]"], ["return x"], n
    ),
    "loops in loops": lambda n: flow(
        [],
        lambda i: [*("    " * k + f"for i{k} in range(3):" for k in range(18)), "    " * 18 + "x = x * 2"],
        ["return x"],
        max(1, n // 18),
    ),
    "tries": lambda n: flow(
        [], lambda i: ["try:", "    x = x.view(-1)", "except Exception:", "    x = x * 2"], ["return x"], n
    ),
    "withs": lambda n: flow([], lambda i: ["with torch.no_grad():", "    x = x.view(-1)"], ["return x"], n),
    "methods that call the next twice": lambda n: methods(
        lambda i: f"def h{i}(self):\n    self.h{i + 1}()\n    self.h{i + 1}()\n",
        f"def h{n}(self):\n    self.x = [nn.Linear(1, 1)]\n",
        n,
        forward=["return self.x[0](x)"],
    ),
    "methods of forward that call the next twice": lambda n: methods(
        lambda i: f"def h{i}(self, x):\n    return self.h{i + 1}(x) + self.h{i + 1}(x.view(-1))\n",
        f"def h{n}(self, x):\n    return x.view(-1)\n",
        n,
        init=(),
        forward=["return self.h0(x)"],
    ),
    "functions that call the next twice": lambda n: (
        repeated(lambda i: f"def f{i}(x):\n    return f{i + 1}(x) + f{i + 1}(x[0])\n\n\n", n)
        + f"def f{n}(x):\n    return x.add_(1)\n\n\n"
        + module(forward=["return f0(x)"])
    ),
    "functions": lambda n: (
        repeated(lambda i: f"def f{i}(x):\n    return x.view(-1)\n\n\n", n)
        + module(forward=[*(f"x = f{i}(x)" for i in range(n)), "return x"])
    ),
    "a list of modules": lambda n: HEAD + module(["self.a = [" + ", ".join(["nn.Linear(2, 2)"] * n) + "]"]),
    "a dict of modules": lambda n: (
        HEAD + module(["self.a = {" + ", ".join(f"'{i}': nn.Linear(2, 2)" for i in range(n)) + "}"])
    ),
    "a tensor of numbers": lambda n: (
        HEAD + module(["self.a = torch.tensor([" + ", ".join(map(str, range(n))) + "])"], ["return x + self.a"])
    ),
    "appends": lambda n: (
        HEAD + module(["self.a = []", *["self.a.append(nn.Linear(2, 2))"] * n], ["return self.a[0](x)"])
    ),
    "lists each appended to": lambda n: (
        HEAD
        + module(
            [line for i in range(n) for line in (f"self.a{i} = []", f"self.a{i}.append(nn.Linear(2, 2))")],
            ["return self.a0[0](x)"],
        )
    ),
    "names in __init__": lambda n: HEAD + module(f"y{i} = {i}" for i in range(n)),
    "statements": lambda n: flow([], lambda i: [f"x = torch.relu(x + {i})"], ["return x"], n),
    "names": lambda n: flow(["y0 = x"], lambda i: [f"y{i + 1} = y{i} + y{i // 2}"], [f"return y{n}"], n),
    "writes by index": lambda n: flow(["y = x * 1"], lambda i: [f"y[{i}] = {i}"], ["return y"], n),
    "base classes under other names": lambda n: (
        HEAD
        + "".join(f"A{i} = {'nn.Module' if i == 0 else f'A{i - 1}'}\n" for i in range(n))
        + module(["self.a = [nn.Linear(1, 1)]"], base=f"A{n - 1}")
    ),
    "self under other names": lambda n: (
        HEAD + module(["s0 = self", *(f"s{i + 1} = s{i}" for i in range(n)), f"s{n}.a = [nn.Linear(1, 1)]"])
    ),
    "attributes that are one list": lambda n: (
        HEAD + module(["self.a0 = [nn.Linear(1, 1)]", *(f"self.a{i + 1} = self.a{i}" for i in range(n))])
    ),
    "lambdas": lambda n: brackets("(lambda x: ", "x", ")", n, "f = {}"),
    "comprehensions": lambda n: (
        HEAD
        + module(
            f"self.f{k} = " + "[" * 12 + "nn.Linear(1, 1)" + "".join(f" for i{i} in range(2)]" for i in range(12))
            for k in range(max(1, n // 12))
        )
    ),
    "choices in one expression": lambda n: (
        HEAD
        + module(["self.f = " + "[nn.Linear(1, 1)] if a else " * min(n, 900) + "None" for _ in range(max(1, n // 900))])
    ),
    "conditions joined by and": lambda n: flow(
        ["if " + " and ".join(f"x.shape[0] > {i}" for i in range(n)) + ":", "    x = x * 2"],
        lambda i: [],
        ["return x"],
        0,
    ),
    # Python before 3.12 takes the square of its length to parse a single f-string.
    "f-strings": lambda n: HEAD + module(f"self.n{k} = f'" + "{1}" * DEEP + "'" for k in range(max(1, n // DEEP))),
    "noqa": lambda n: HEAD + "".join(f"x{i} = 1  # noqa: REG001\n" for i in range(n)),
    "ignore": lambda n: HEAD + "".join(f"x{i} = 1  # modellint: ignore[REG001]\n" for i in range(n)),
    "findings with noqa": lambda n: repeated(
        lambda i: module(["self.a = [nn.Linear(2, 2)]  # noqa: REG001"], ["return self.a[0](x)"], f"N{i}"), n
    ),
    "classes with ignore": lambda n: repeated(
        lambda i: module(["self.a = [nn.Linear(2, 2)]"], ["return self.a[0](x)"], f"N{i}").replace(
            "):\n", "):  # modellint: ignore[REG001]\n", 1
        ),
        n,
    ),
    "file-ignore": lambda n: (
        HEAD
        + "# modellint: file-ignore[REG001]\n" * n
        + repeated(lambda i: module(["self.a = [nn.Linear(2, 2)]"], ["return self.a[0](x)"], f"N{i}"), n // 4)
    ),
    "decorators": lambda n: HEAD + "def d(f): return f\n" + "@d\n" * n + module(["self.a = [nn.Linear(2, 2)]"]),
    "arguments": lambda n: (
        HEAD
        + "class Net(nn.Module):\n    def __init__(self, "
        + ", ".join(f"a{i}=1" for i in range(n))
        + "):\n        super().__init__()\n        self.a = [nn.Linear(1, 1)]\n"
    ),
    "one long string": lambda n: HEAD + module(["self.a = '" + "x" * n + "'"]),
    "attributes unpacked": lambda n: (
        HEAD
        + module([", ".join(f"self.a{i}" for i in range(n)) + " = " + ", ".join("[nn.Linear(1, 1)]" for i in range(n))])
    ),
    "lists added": lambda n: (
        HEAD + module(f"self.a{k} = " + " + ".join(["[nn.Linear(1, 1)]"] * DEEP) for k in range(max(1, n // DEEP)))
    ),
    "a list that grows by +": lambda n: HEAD + module(["a = []", *["a = a + [nn.Linear(1, 1)]"] * n, "self.a = a"]),
    "lists around one module": lambda n: (
        HEAD
        + module(
            ["m = nn.Linear(1, 1)", *(f"self.a{i} = [m]" for i in range(n))],
            ["for a in self.a0:", "    x = a(x)", "return x"],
        )
    ),
    "tensors of the file": lambda n: (
        HEAD
        + "".join(f"g{i} = torch.zeros({i})\n" for i in range(n))
        + module(forward=[*(f"x = x + g{i}" for i in range(n)), "return x"])
    ),
    "imports": lambda n: HEAD + "".join(f"import m{i}\n" for i in range(n)) + module(),
    "what comes after return": lambda n: flow(["return x"], lambda i: ["x = x.view(-1)"], [], n),
    "blank lines": lambda n: HEAD + "\n" * n + module(["self.a = [nn.Linear(1, 1)]"]),
    "comments": lambda n: HEAD + "# x\n" * n + module(["self.a = [nn.Linear(1, 1)]"]),
    "results handed on": lambda n: (
        "from blocks.ops import Mixer\n"
        + HEAD
        + module(
            ["self.m = Mixer(1)"],
            [part for i in range(n) for part in (f"s{i} = x.prod(1)", f"x = self.m(x, s{i})")] + ["return x"],
        )
    ),
    "results of results": lambda n: (
        HEAD
        + module(
            forward=["s = x.prod(1)", *(f"s{i} = x.prod({i}) * s{i - 1 if i else ''}" for i in range(n)), "return x"]
        )
    ),
    "lists filled and joined": lambda n: flow(
        [],
        lambda i: [f"p{i} = []", "for j in range(x.shape[1]):", f"    p{i}.append(x * j)", f"y = torch.cat(p{i}, 0)"],
        ["return x"],
        n,
    ),
    "lists joined after equally many turns": lambda n: flow(
        ["n = x.shape[1]"],
        lambda i: [f"p{i} = []", "for j in range(n):", f"    p{i}.append(x * j)", f"y = torch.cat(p{i}, 0)"],
        ["return x"],
        n,
    ),
    "methods that a constant keeps out": lambda n: (
        HEAD
        + module(
            ["self.mode = 'one'"], ["if self.mode == 'two':", *(f"    x = self.m{i}(x)" for i in range(n)), "return x"]
        )
        + "".join(f"    def m{i}(self, x):\n        return torch.kthvalue(x, 1).values\n\n" for i in range(n))
    ),
    "tensors that are only written": lambda n: flow(
        [], lambda i: [f"y{i} = torch.zeros(4, 4)", f"y{i}[:, x.long()] = x"], ["return x"], n
    ),
    "semicolons": lambda n: HEAD + module([";".join(["self.a = [nn.Linear(1, 1)]"] * n)]),
}
"""Other ways to be long."""

SHAPES = {**NAMED, **OTHERS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("shapes", metavar="SHAPE", nargs="*", help="shapes with one of these words in their names (default: all)")
    add("--bytes", type=int, default=1_000_000, metavar="N", help="how long the longest text is (default: 1000000)")
    add("--seconds", type=float, default=20.0, metavar="S", help="what the longest text may take (default: 20)")
    add("--list", action="store_true", help="print the names of the shapes")
    add("--one", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return _measure(arguments.one[0], [int(n) for n in arguments.one[1:]])
    chosen = [name for name in SHAPES if not arguments.shapes or any(word in name for word in arguments.shapes)]
    if arguments.list or not chosen:
        print("\n".join(chosen or SHAPES))
        return 0 if chosen else 2
    print(f"{'shape':44}{'exponent':>9}{'s':>9}{'MB':>6}{'peak MB':>9}  seconds at each size; findings")
    held = True
    for name in chosen:
        held &= _tell(name, arguments.bytes, arguments.seconds)
    return 0 if held else 1


def _tell(name: str, length: int, limit: float) -> bool:
    """Measure a shape and print its line; whether it keeps the bounds."""
    n = _parts_for(SHAPES[name], length)
    sizes = [str(max(1, n // part)) for part in PARTS]
    rows: list[dict[str, float]] = []
    try:
        command = [sys.executable, __file__, "--one", name, *sizes]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                output, _ = process.communicate(timeout=10 * limit)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
    except OSError as error:
        print(f"{name:44} {error}")
        return False
    rows = [json.loads(line) for line in output.splitlines()]
    seconds = " ".join(f"{row['seconds']:.2f}" for row in rows)
    findings = " ".join(str(row["findings"]) for row in rows)
    if len(rows) < len(PARTS):
        print(f"{name:44}{'':9}{'not done':>9}  {seconds}; {findings}", flush=True)
        return False
    first, last = rows[1], rows[-1]
    exponent = math.log(last["seconds"] / first["seconds"]) / math.log(last["n"] / first["n"])
    lost = rows[0]["findings"] > 0 and not last["findings"]
    steep = exponent > HIGHEST and last["seconds"] > SLOW
    slow = last["seconds"] > limit
    said = {"STEEP": steep, "LOST": lost, "FAILED": last["failed"], "CUT": last["cut"], "SLOW": slow}
    words = [word for word, holds in said.items() if holds]
    size = last["characters"] / 1e6
    print(
        f"{name:44}{exponent:9.2f}{last['seconds']:9.2f}{size:6.2f}{last['peak']:9.0f}  {seconds}; {findings} {' '.join(words)}",
        flush=True,
    )
    return not words


def _parts_for(make: Callable[[int], str], length: int) -> int:
    """How many parts make a text of about that length."""
    n = 800
    while True:
        made = len(make(n))
        if made > 0.9 * length or n > length:
            return n
        n = max(n + 1, int(n * length / made))


def _measure(name: str, sizes: list[int]) -> int:
    """Check one shape at its sizes and print a line of JSON for each."""
    import resource

    import modellint

    modellint.check_source(SHAPES[name](2))
    for n in sizes:
        text = SHAPES[name](n)
        start = time.process_time()
        found = modellint.check_source(text).diagnostics
        seconds = time.process_time() - start
        row = {
            "n": n,
            "characters": len(text),
            "seconds": max(seconds, 1e-3),
            "findings": len(found),
            "failed": any(one.code == "LNT004" for one in found),
            "cut": any(one.code == "LNT005" for one in found),
            "codes": sorted({one.code for one in found}),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
