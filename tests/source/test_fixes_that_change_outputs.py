"""A fix that changes what the model computes says so in the finding, and how."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from modellint.cli import cli
from modellint.rule import Page
from modellint.rule_index import load_rules

CHANGES = {
    "FLW007": "outputs change where a hook changes them",
    "MOD002": "outputs in evaluation change",
    "MOD004": "outputs where it changes the weight",
    "MUT007": "the caller's tensor stays as it was",
    "MUT008": "outputs in evaluation change",
    "NUM001": "outputs change where",
    "NUM002": "outputs change where",
    "NUM007": "outputs change",
    "OPS007": "outputs change in their last digit",
    "OPS012": "outputs change where",
    "SHP007": "outputs of inputs of another rank change",
    "SHP009": "outputs change where",
}
MEMBERS = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [{member}]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def titles(text: str, code: str) -> list[str]:
    """Those of the fixes that the findings of a rule have."""
    arguments = ["check", "-", "--isolated", "--select", code, "--output-format", "json"]
    found = json.loads(CliRunner().invoke(cli, arguments, input=text).stdout)
    return [one["fix"]["message"] for one in found if one["code"] == code and one["fix"] is not None]


@pytest.mark.parametrize("code, told", CHANGES.items())
def test_the_title_says_so(code: str, told: str) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", Page.of(load_rules()[code].__class__).sections["Bad"], re.DOTALL)
    found = titles(block, code)
    assert found
    assert all(told in title for title in found)


@pytest.mark.parametrize(
    "member, changes",
    [
        ("nn.Dropout(0.1)", True),
        ("nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2))", True),
        ("nn.Linear(2, 2), nn.ReLU()", False),
    ],
)
def test_modules_that_evaluation_reaches_again(member: str, changes: bool) -> None:
    (title,) = titles(MEMBERS.format(member=member), "REG001")
    assert ("`eval()` then reaches them, which changes outputs" in title) is changes
