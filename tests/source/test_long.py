"""Small files whose reading would not end, or would fill memory, if it did all that they say."""

from __future__ import annotations

import nets
import pytest

import modellint

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(3)

    def forward(self, x):
        y = x + self.table
{body}
        return y
"""


def codes(*lines: str) -> list[str]:
    body = "\n".join("        " + line for line in lines)
    found = [finding.code for finding in modellint.check_source(NET.format(body=body)).diagnostics]
    assert not any(code.startswith("LNT") for code in found)
    return found


@pytest.mark.parametrize("number", ["10**7", "-10**7", "400", "64"])
@pytest.mark.parametrize(
    "line",
    [
        "y = y.select({}, 0)",
        "y = y.unsqueeze({})",
        "y = y.transpose({}, 0).view(-1)",
        "y = y.movedim({}, 0).view(-1)",
        "y = y.squeeze({})",
        "y = y.flatten({})",
        "y = y.flatten(1, {})",
        "y = y.unflatten({}, (2, 2))",
        "y = y.narrow({}, 0, 1)",
        "y = y.view(x.size({}), -1)",
        "y = y.view(x.shape[:{}] + (-1,))",
        "y = y.view(x.shape[{}:])",
    ],
)
def test_dimensions_that_no_tensor_has(line: str, number: str) -> None:
    assert codes(line.format(number)).count("REG006") == 1


@pytest.mark.parametrize(
    "lines",
    [
        ["n = 7", *["n = n * n"] * 60, "y = y.view(n, -1)"],
        ["n = x.shape[0]", *["n = n * n"] * 60, "y = y.view(n, -1)"],
        ["n = x.shape[0]", *["n = n // 3"] * 2000, "y = y.view(n, -1)"],
        ["n = 1", *["n = n << 128"] * 2000, "y = y.view(n, -1)"],
    ],
)
def test_numbers_whose_digits_double(lines: list[str]) -> None:
    assert codes(*lines).count("REG006") == 1


def test_a_list_that_holds_itself_twice() -> None:
    assert codes("parts = [y]", *["parts = [parts, parts]"] * 60, "y = torch.cat(parts)").count("REG006") == 1


def test_branches_that_double_what_a_variable_may_be() -> None:
    doubled = [line for row in range(40) for line in (f"if self.training == {row}:", f"    y = y[{row}:]")]
    assert codes(*doubled).count("REG006") == 1


def test_what_ends_in_python_through_many_names() -> None:
    chain = ["y0 = torch.add(x, x, alpha=2)", *(f"y{i + 1} = y{i} + y{i}" for i in range(60))]
    assert codes(*chain, "n = y60.sum().item()").count("OPS007") == 0
    assert codes(*chain, "y = y60").count("OPS007") == 1
    assert codes("z = torch.add(x, x, alpha=2)", "for z in range(3):", "    z = z + 1").count("OPS007") == 1


def called_often(rows: int) -> str:
    """A class whose methods each run a long one, a hundred times; and one that hides its layers."""
    step = f"        n = ({'0, ' * 100})\n" * rows
    calls = "".join(f"\n    def part{row}(self, x):\n" + "        x = self.step(x)\n" * 100 for row in range(2))
    first = "class Long(nn.Module):\n    def forward(self, x):\n        return x.view(-1)\n"
    return f"""from torch import nn


{first}
    def step(self, x):
{step}        return x
{calls}

class Short(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2)]
"""


def test_a_class_that_takes_too_long_to_read_is_named() -> None:
    short = modellint.check_source(called_often(2)).diagnostics
    assert [finding.code for finding in short] == ["REG001"]
    found = modellint.check_source(called_often(40)).diagnostics
    assert [(finding.code, finding.class_name) for finding in found] == [("LNT005", "Long"), ("REG001", "Short")]
    said = found[0]
    assert said.span is not None and said.span.row == 4
    assert "class `Long` takes more than 400,000 steps" in said.message and "not asked about it: SIG005" in said.message


def test_a_long_class_may_take_as_many_steps_as_its_text_is_long() -> None:
    head = "class Long(nn.Module):\n"
    long = called_often(24).replace(head, f"{head}    # {'-' * 150_000}\n")
    assert "LNT005" in nets.codes(called_often(24), "LNT")
    assert nets.codes(long, "LNT") == []


def test_a_class_with_many_attributes_is_read_to_its_end() -> None:
    lines = [f"self.a{row} = [nn.Linear(2, 2), {'0, ' * 100}]" for row in range(MANY)]
    assert built(*lines, "self.b = [nn.Linear(2, 2)]") == [*(f"a{row}" for row in range(MANY)), "b"]


def test_what_many_methods_bind_and_many_lists_hold() -> None:
    net = "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    net += "".join(
        f"        self.a{row} = []\n        self.a{row}.append(nn.Linear(2, 2))\n        del self.a{row - 1}\n"
        for row in range(1, 20)
    )
    net += "".join(f"\n    def h{row}(self):\n        self.b{row % 20} = [nn.Linear(2, 2)]\n" for row in range(40))
    found = modellint.check_source(net).diagnostics
    # The last of the lists, which is not taken away, and what the methods bind, each of them twice.
    assert [finding.attribute for finding in found] == ["a19", *(f"b{row}" for row in range(20))]


def test_a_list_that_is_added_to_many_times_holds_what_was_added_first_and_last() -> None:
    for at in (0, 1499, None):
        lines = ["a = a + [nn.Linear(2, 2)]" if row == at else "a = a + [str(flag)]" for row in range(1500)]
        assert built("a = []", *lines, "self.a = a") == ([] if at is None else ["a"])


MANY = 300
"""More names than are copied at a branch."""


def built(*lines: str, forward: str = "return x") -> list[str | None]:
    """The attributes with findings of a module with these lines in ``__init__``."""
    net = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, flag):\n"
    net += "".join(f"        {line}\n" for line in ("super().__init__()", *lines))
    findings = modellint.check_source(net + f"\n    def forward(self, x):\n        {forward}\n").diagnostics
    return [finding.attribute for finding in findings if finding.code == "REG001"]


def branches(line: str, count: int = MANY) -> list[str]:
    """So many branches with a line each."""
    return [part for row in range(count) for part in (f"if flag > {row}:", "    " + line.format(row))]


def test_branches_that_bind_many_attributes() -> None:
    lines = branches("self.a{} = [nn.Linear(2, 2)]")
    assert built(*lines) == [f"a{row}" for row in range(MANY)]
    # What every way through overwrites or takes away is gone; what one of two ways leaves is there.
    lines += ["self.a3 = None", "del self.a4", "if flag:", "    self.a5 = None", "    del self.a6", "else:"]
    lines += ["    self.a5 = 0", "    self.a7 = None"]
    gone = ("a3", "a4", "a5")
    assert built(*lines) == [f"a{row}" for row in range(MANY) if f"a{row}" not in gone]


def test_an_attribute_that_many_branches_bind() -> None:
    lines = branches("self.a = [nn.Linear(2, 2)]")
    assert built(*lines) == ["a"] and built(*lines, "self.a = nn.ModuleList(self.a)") == []
    assert built(*lines, "if flag:", "    self.a = None") == ["a"]


def test_returns_among_many_attributes() -> None:
    lines = [f"self.b{row} = [nn.Linear(2, 2)]" for row in range(MANY)]
    for row in range(MANY):
        lines += [f"if flag > {row}:", "    return", f"self.b{row} = None"]
    # Who returns early leaves the list that is overwritten later.
    assert built(*lines) == [f"b{row}" for row in range(MANY)]


def test_branches_that_bind_many_names() -> None:
    lines = branches("n{} = [nn.Linear(2, 2)]")
    lines += ["if flag:", "    n1 = None", "    n2 = None", "else:", "    n1 = 0"]
    lines += [
        "def give():",
        "    return n3",
        "n3 = None",
        "for turn in range(2):",
        "    n4 = None",
        "    n301 = [nn.ReLU()]",
    ]
    lines += ["self.a = n1", "self.b = n2", "self.c = give()", "self.d = n4", "self.e = n301"]
    assert built(*lines) == ["b", "e"]


def test_what_is_appended_to_one_list_many_times() -> None:
    lines = ["last = nn.Linear(2, 2)", "rows = []", *["rows.append(nn.Linear(2, 2))"] * MANY, "rows.append(last)"]
    assert built(*lines, "self.rows = rows") == ["rows"]
    lines += [*["rows.append(last)"] * MANY, "self.rows = nn.ModuleList(rows)"]
    assert built(*lines) == []
