"""Fixes that break, or that no author wants, are not offered: forms that were met in public code."""

from __future__ import annotations

import pytest
from nets import fixed, net, said

MEAN = 'self.register_buffer("mean", torch.zeros(3))'


@pytest.mark.parametrize(
    ("code", "forward", "init"),
    [
        # The caller keeps its cache in what it hands over.
        ("MUT007", "kv_cache[0] = x\nreturn kv_cache.sum() + x", "pass"),
        ("MUT007", "rec_states[0] = x\nreturn rec_states.sum() + x", "pass"),
        # A checkpoint has the keys of the parametrization, and the converted weight is a constant.
        ("MOD004", "return self.c(x)", "self.c = nn.utils.weight_norm(nn.Conv1d(4, 4, 3))"),
        ("DEV001", "return self.module(x.cuda())", "self.module = n"),
        ("MUT003", "y = self.embed(x)\nm = x > 3\ny[m] = 0.0\nreturn y", "self.embed = nn.Embedding(4, 4)"),
    ],
)
def test_a_finding_without_a_fix(code: str, forward: str, init: str) -> None:
    arguments = "x, kv_cache, rec_states" if code == "MUT007" else "x"
    text = net(forward, init, arguments=arguments)
    assert len(said(text, code)) == 1
    assert fixed(text, code) == text


@pytest.mark.parametrize(
    ("code", "forward", "init", "name"),
    [
        # What a bound method is called by is no `forward` called by name.
        ("FLW007", "return self.encode(x)", "self.encode = nn.Linear(3, 3).forward", "Net"),
        ("SHP004", "return x + self.gate(x).sum(-1).view(1, 1, 1, 1)", "self.gate = nn.Linear(3, 1)", "Net"),
        ("MOD002", "return F.dropout(x)", "pass", "MCClassifier"),
        (
            "MUT008",
            "self.kv_cache[0] = self.kv_cache[0] * (1 - n) + x * n",
            'self.register_buffer("kv_cache", torch.zeros(3))',
            "Net",
        ),
    ],
)
def test_what_is_as_it_should_be_is_clean(code: str, forward: str, init: str, name: str) -> None:
    assert said(net(forward, init, name, arguments="x, n=0.5"), code) == []


def test_what_a_metric_counts_moves_in_evaluation() -> None:
    text = net("self.mean += x.mean(0)\nreturn x", MEAN)
    assert len(said(text, "MUT008")) == 1
    assert said(f"{text}\n    def clear(self):\n        self.mean.fill_(0)\n", "MUT008") == []


def test_lines_that_go_on_are_indented_with_their_statement() -> None:
    update = "self.mean = self.mean * 0.9 + (\n    x.mean(0)  # of the batch\n) * 0.1"
    text = net(f"{update}\nreturn x", MEAN)
    lines = fixed(text, "MUT008").splitlines()
    at = lines.index("        if self.training:")
    assert lines[at + 1 : at + 4] == [f"{' ' * 12}{line}" for line in update.splitlines()]


def test_a_cast_to_float64_becomes_one_to_float32() -> None:
    text = net("return x * self.betas", 'self.register_buffer("betas", torch.linspace(0, 1, 4).double())')
    assert "torch.linspace(0, 1, 4).float())" in fixed(text, "NUM007")


def test_prelu_in_a_file_of_images_is_left() -> None:
    text = net("return self.act(self.norm(x))", "self.norm = made(8)\nself.act = nn.PReLU(8)")
    assert "CustomPReLU" in fixed(text, "OPS004")
    assert fixed(f"{text}\npool = nn.AvgPool2d(2)\n", "OPS004") == f"{text}\npool = nn.AvgPool2d(2)\n"
