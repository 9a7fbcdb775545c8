"""Small modules as text, and what is said of them and made of them."""

from __future__ import annotations

import textwrap

import modellint
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n"


def net(forward: str, init: str = "pass", name: str = "Net", arguments: str = "x", head: str = "") -> str:
    lines = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return (
        f"{HEAD}{head}\n\nclass {name}(nn.Module):\n    def __init__(self, n=4):\n        super().__init__()\n{lines}\n\n"
        f"    def forward(self, {arguments}):\n{body}\n"
    )


def said(text: str, code: str) -> list[str]:
    """Row behind the head of ``forward`` and first letter of the severity of each finding of a code."""
    first = text[: text.index("def forward")].count("\n") + 1
    return [
        f"{finding.severity.name[0]}{finding.span.row - first}"
        for finding in modellint.check_source(text).diagnostics
        if finding.code == code and finding.span is not None
    ]


def codes(text: str, *wanted: str, filename: str = "model.py") -> list[str]:
    """The codes of the findings of these rules, or families of rules, and of no other."""
    findings = modellint.check_source(text, filename).diagnostics
    return [finding.code for finding in findings if finding.code.startswith(wanted)]


def fixed(text: str, code: str) -> str:
    def look(source: SourceText) -> tuple[modellint.results.diagnostic.Diagnostic, ...]:
        findings = modellint.check_source(source.text).diagnostics
        return tuple(finding for finding in findings if finding.code == code)

    done = fix_text(SourceText(text), look, unsafe=True)
    assert done.problem is None
    return done.text
