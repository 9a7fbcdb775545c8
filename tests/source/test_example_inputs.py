"""Branches that the project's own exports never take are information: for a flag that is off, or for tensors of another rank."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

HEAD = "import torch\nfrom torch import nn\n\n\n"
FLAGGED = """
class Net(nn.Module):
    def forward(self, x, mirrored=False, *, wide=None):
        if {test}:
            y = x.flip(3)
            y[..., 0] = 1
            return y
        return x
"""
FRAMES = """
class Net(nn.Module):
    def forward(self, x, y):
        {before}
        if {test}:
            x = torch.cat([x[:, i] for i in range(x.size(1))], dim=0)
        return x * y.sum()
"""


def severities(folder: Path, code: str, net: str, **scripts: str) -> list[str]:
    (folder / ".git").mkdir()
    for name, text in {"net": net, **scripts}.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text), "utf-8")
    arguments = ["check", "--output-format", "json", "--select", code, str(folder / "net.py")]
    return [finding["severity"] for finding in json.loads(CliRunner().invoke(cli, arguments).stdout)]


def script(export: str, image: str = "torch.zeros((1, 3, 8, 8))") -> str:
    return (
        "from net import Net\n\n\ndef load(path):\n    net = Net()\n    net.load_state_dict(torch.load(path))\n    return net\n\n\n"
        f'if __name__ == "__main__":\n    net = load("a.pt")\n    image = {image}\n    {export}\n'
    )


@pytest.mark.parametrize(
    ("test", "export", "severity"),
    [
        ("mirrored", 'torch.onnx.export(net, image, "a.onnx")', "info"),
        ("mirrored", "torch.jit.trace(net.eval(), (image,))", "error"),
        ("mirrored", "torch.jit.trace(Net().eval(), (image,))", "info"),
        ("mirrored and x.ndim == 4", "torch.export.export(net, (image,))", "info"),
        ("wide is not None", "torch.export.export(net, (image,))", "info"),
        ("not mirrored", "torch.jit.trace(net, image)", "error"),
        ("mirrored", "torch.jit.trace(net, (image, torch.tensor(True)))", "error"),
        ("mirrored", "torch.jit.trace(net, (image, True))", "error"),
        ("mirrored", "torch.jit.trace(net, (image, False))", "info"),
        ("not mirrored", "torch.jit.trace(net, (image, True))", "info"),
        ("mirrored", "torch.jit.trace(net, (image, False)), torch.jit.trace(net, (image, True))", "error"),
        ("mirrored", "torch.jit.trace(net, image, example_kwarg_inputs={})", "error"),
        ("mirrored", 'torch.export.export(net, (image,), {"mirrored": True})', "error"),
        ("mirrored", "torch.jit.trace(net, inputs)", "error"),
        ("mirrored", "torch.jit.trace(net, image)\n    net(image, mirrored=True)", "error"),
        ("mirrored", "torch.jit.trace(net, image)\n    net(image, True)", "error"),
        ("mirrored", "torch.jit.trace(net, image)\n    net(*image)", "error"),
        ("mirrored", "torch.jit.trace(net, image)\n    max(image, 3)", "info"),
        ("mirrored", "torch.jit.trace(other, image)", "error"),
        ("mirrored", "net(image)", "error"),
    ],
)
def test_a_flag_that_no_export_gives(tmp_path: Path, test: str, export: str, severity: str) -> None:
    assert severities(tmp_path, "MUT001", FLAGGED.format(test=test), script=script(export)) == [severity]


def test_a_flag_is_given_where_one_of_two_exports_is_not_seen(tmp_path: Path) -> None:
    scripts = {"one": script("torch.jit.trace(net, image)"), "two": script("torch.jit.trace(net, image)", "read()")}
    assert severities(tmp_path, "MUT001", FLAGGED.format(test="mirrored"), **scripts) == ["error"]


@pytest.mark.parametrize(
    ("before", "test", "given", "severity"),
    [
        ("", "x.dim() > 4", "(image, image)", "info"),
        ("", "x.ndim == 5", "(image, image)", "info"),
        ("count = len(x.size())", "count > 4", "(image, image)", "info"),
        ("", "len(x.shape) > 4", "(image.float(), image)", "warning"),
        ("", "len(x.shape) > 4", "(torch.rand(1, 3, 8, 8).float(), image)", "info"),
        ("", "y.dim() == 4", "(image, image)", "warning"),
        ("", "x.dim() > 3", "(image, image)", "warning"),
        ("", "x.dim() > 4", "(torch.rand(1, 3, 4, 5, 6), image)", "warning"),
        ("", "x.dim() > 4", "(torch.rand(size), image)", "warning"),
        ("x = x.abs()", "x.dim() > 4", "(image, image)", "warning"),
    ],
)
def test_tensors_of_another_rank(tmp_path: Path, before: str, test: str, given: str, severity: str) -> None:
    net = FRAMES.format(before=before, test=test)
    assert severities(tmp_path, "FLW004", net, script=script(f"torch.jit.trace(net, {given})")) == [severity]
