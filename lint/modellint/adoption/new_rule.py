"""A new rule from a template: a file that works as it is, and its test; neither takes the place of anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

KINDS = ("class", "code", "node", "live")
"""What a rule may ask: module classes, what functions do, nodes of libcst, live models."""


class NewFile(NamedTuple):
    """A file that is to be written."""

    path: Path
    text: str


class CannotCreate(Exception):
    """There can be no such rule; the message says why."""


class _Kind(NamedTuple):
    imports: str
    """What the rule needs of ``modellint.authoring``."""
    types: str
    """What is imported for annotations alone."""
    finds: str
    """What it finds, in the summary."""
    bad: str
    good: str
    attributes: str
    method: str
    fix: str = "There is no fix."


def files(folder: Path, code: str, name: str, kind: str) -> list[NewFile]:
    """The rule's file and its test. Raises ``CannotCreate`` where the folder has one of that code."""
    files = [*folder.glob("*.py"), *folder.glob("*/*.py")]
    taken = [path for path in files if re.match(rf"(test_)?{code.lower()}(_|\.py\Z)", path.name)]
    if taken:
        raise CannotCreate(f"{taken[0]} is there already")
    template = _TEMPLATES[kind]
    text = _RULE.format(
        **{
            **template._asdict(),
            "code": code,
            "name": name,
            "title": "".join(word.capitalize() for word in name.split("-")),
            "bad": _indented(template.bad),
            "good": _indented(template.good),
            "types": _indented(template.types),
            "attributes": _indented(template.attributes) + "\n" * bool(template.attributes),
            "method": _indented(template.method),
        }
    )
    stem = name.removeprefix(f"{code.lower()}-").replace("-", "_")
    rule = NewFile(folder / f"{code.lower()}_{stem}.py", text)
    return [rule, NewFile(folder / "tests" / f"test_{code.lower()}.py", _TEST.format(code=code))]


def _indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.strip("\n").splitlines(True))


_TEST = '''\
"""The page of {code} is complete, and its examples do what it says."""

from pathlib import Path

from modellint.testing import assert_page

PLUGIN = Path(__file__).parent.parent


def test_page() -> None:
    assert_page(PLUGIN, "{code}")
'''

_RULE = '''\
"""{code}: {finds}."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import {imports}

if TYPE_CHECKING:
{types}


class {title}(Rule):
    """Write here in a sentence what the rule finds: {finds}.

    ## What it does
    Finds {finds}.

    ## Why
    Write here what goes wrong without the rule.

    ## Bad
    ```python
{bad}
    ```

    ## Good
    ```python
{good}
    ```

    ## Fix safety
    {fix}

    ## Known limits
    None are known.

    ## References
    - <https://pytorch.org/docs/stable/nn.html>
    """

    code = "{code}"
    name = "{name}"
    severity = Severity.WARNING
{attributes}
{method}
'''

_CLASS = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.{attribute} = 1
"""
_FORWARD = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return {result}
"""
_LIVE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4){operation})

    def forward(self, x):
        return x * self.scale


inputs = (torch.randn(2, 4),)
"""

_TEMPLATES = {
    "class": _Kind(
        "Diagnostic, Rule, Severity",
        "from modellint.authoring import ModuleClass",
        "an attribute called `todo`",
        _CLASS.format(attribute="todo"),
        _CLASS.format(attribute="steps"),
        "",
        '''
def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
    """Ask every attribute its name."""
    for attribute in cls.attributes:
        for binding in attribute.live:
            if attribute.name == "todo" and binding.file is cls.file:
                yield cls.finding(self, binding.statement, "`self.todo` is unfinished", attribute="todo")
''',
    ),
    "code": _Kind(
        "Diagnostic, Rule, Severity",
        "from modellint.authoring import Code",
        "a call of `torch.empty` while `forward` runs",
        _FORWARD.format(result="x + torch.empty(4)"),
        _FORWARD.format(result="x + torch.zeros(4)"),
        """
needs = ("forward", frozenset({".empty", "~empty"}))
only_modules = True
only_forward = True
""",
        '''
def source(self, code: Code) -> Iterator[Diagnostic]:
    """Ask every call that `forward` runs for its name."""
    for readings in code.calls:
        call = readings[0]
        if call.function in code.in_forward and all(reading.name == "torch.empty" for reading in readings):
            yield code.finding(self, call.node, "`torch.empty` holds anything", statement=call.statement)
''',
    ),
    "node": _Kind(
        "Applicability, Diagnostic, Rule, Severity",
        "import libcst as cst\n\nfrom modellint.authoring import CstFile",
        "`torch.concat`, which is `torch.cat`",
        _FORWARD.format(result="torch.concat([x, x])"),
        _FORWARD.format(result="torch.cat([x, x])"),
        """
needs = (".concat",)
fixable = "`torch.cat`"
""",
        '''
def source(self, node: cst.Attribute, file: CstFile) -> Iterator[Diagnostic]:
    """Ask every attribute for its name."""
    import libcst as cst

    if node.attr.value == "concat" and "torch.concat" in file.names(node):
        yield file.finding(
            self,
            node,
            "`torch.concat` is `torch.cat`",
            replacement=node.with_changes(attr=cst.Name("cat")),
            applicability=Applicability.SAFE,
        )
''',
        "Safe: both names are one function.",
    ),
    "live": _Kind(
        "Diagnostic, Rule, Severity",
        "from modellint.authoring import LiveModel",
        "a parameter or buffer that holds NaN or infinity",
        _LIVE.format(operation=" / 0"),
        _LIVE.format(operation=""),
        'live_needs = "values"',
        '''
def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
    """Ask every tensor of the state for its values."""
    for state in subject.state:
        if not state.tensor.isfinite().all():
            yield subject.finding(
                self,
                f"the {state.kind} `{state.attribute}` holds NaN or infinity",
                modules=[name.rpartition(".")[0] for name in state.names],
                **subject.binding(state.name).keywords(),
            )
''',
    ),
}
