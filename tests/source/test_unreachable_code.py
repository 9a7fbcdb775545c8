"""Unreachable code: findings in branches that constants, callers or constructors rule out are information."""

from __future__ import annotations

import textwrap

import pytest

import modellint

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def of_text(text: str, code: str = "MUT001") -> list[str]:
    findings = modellint.check_source(HEAD + textwrap.dedent(text)).diagnostics
    return [finding.severity.label for finding in findings if finding.code == code]


LOOP = """
class Net(nn.Module):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        sizes = [1, 2, 3]
        flips = [None, 3, None]
        {before}
        for {target} in {values}:
            if {test}:
                x[..., 0] = 1
        return x
"""


@pytest.mark.parametrize(
    ("before", "target", "values", "test", "severity"),
    [
        ("", "size, flip", "zip(sizes, flips)", "flip == 2", "info"),
        ("", "size, flip", "zip(sizes, flips)", "flip == 3", "error"),
        ("", "at, (size, flip)", "enumerate(zip(sizes, flips))", "flip in (1, 2)", "info"),
        ("", "size, flip", "zip(sizes, flips)", "size == 2", "error"),
        ("", "at, flip", "enumerate(flips)", "at == 2", "error"),
        ("", "flip", "(False, None, 0)", "flip", "info"),
        ("", "flip", "(1, 2)", "not flip", "info"),
        ("", "flip", "flips", "flip == 2", "info"),
        ("flips.append(2)", "flip", "flips", "flip == 2", "error"),
        ("flips = self.flips", "flip", "flips", "flip == 2", "error"),
        ("flip = x.ndim", "size, flip", "zip(sizes, flips)", "flip == 2", "error"),
        ("flip = 2", "size, flip", "zip(sizes, flips)", "flip == 2", "error"),
        ("flip = 1", "size, flip", "zip(sizes, flips)", "flip == 2", "info"),
    ],
)
def test_a_branch_that_no_constant_of_a_variable_takes(
    before: str, target: str, values: str, test: str, severity: str
) -> None:
    assert of_text(LOOP.format(before=before, target=target, values=values, test=test)) == [severity]


@pytest.mark.parametrize(("last", "severity"), [("None", "info"), ("2", "error")])
def test_what_the_branches_before_leave_of_a_variable(last: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def forward(self, x):
            x = x.permute(0, 2, 3, 1)
            for at, flip in enumerate((3, {last})):
                if flip == 3:
                    x = x.flip(1)
                elif flip is None:
                    x = -x
                elif flip == 2 and x.ndim == 2:
                    x = x + 1
                else:
                    x[..., 0] = 1
            return x
    """
    assert of_text(text) == [severity]
