"""Left behind: findings in files of an application that nothing leads to are information."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

HEAD = "import torch\nfrom torch import nn\n\n\n"
OLD = (
    HEAD
    + """class Old(nn.Module):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return x
"""
)
NET = HEAD + "class Net(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
PROGRAM = 'import sys\n\nfrom models.net import Net\n\nif __name__ == "__main__":\n    print(Net()(sys.argv[1]))\n'
APPLICATION = {"models/old.py": OLD, "models/net.py": NET, "models/head.py": "LIMIT = 3\n"} | {
    "models/__init__.py": "",
    "train.py": PROGRAM.replace("import Net", "import Net\nfrom models.head import LIMIT"),
}


LOADER = """\
import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("part", {})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


def severities(folder: Path, files: dict[str, str], of: str, code: str = "MUT001") -> list[str]:
    (folder / ".git").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    arguments = ["check", "--output-format", "json", "--no-cache", "--select", code, str(folder / of)]
    return [finding["severity"] for finding in json.loads(CliRunner().invoke(cli, arguments).stdout)]


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"models/__init__.py": "from models.old import Old\n"}, "error"),
        ({"models/net.py": NET + "\nfrom .old import Old\n\nnet = Old()\n"}, "error"),
        ({"export.py": "from models.old import Old\n"}, "info"),
        ({"export.py": "from models.old import Old\n\nprint(Old())\n"}, "error"),
        ({"export.py": "def export():\n    import models.old\n    print(models.old.Old())\n\nexport()\n"}, "error"),
        (
            {
                "tools/export.py": 'import sys\n\nsys.path.insert(0, "..")\nimport models.old\n\nprint(models.old.Old())\n'
            },
            "error",
        ),
        ({"tests/test_old.py": "from models.old import Old\n\nnet = Old()\n"}, "error"),
        ({"models/older.py": "from models.old import Old\n"}, "info"),
        ({"export.py": "import old\n\nprint(old)\n"}, "error"),
        ({"export.py": "from other import old\n\nprint(old)\n"}, "info"),
        ({"run.sh": "python models/old.py\n"}, "error"),
        ({"README.md": "The first model is in `old.py`.\n"}, "error"),
        ({"README.md": "A model that is old.\n"}, "info"),
        ({"net.yaml": "_target_: models.old.Old\n"}, "error"),
        ({"notes.ipynb": '{"cells": [], "metadata": {"old": 1}}'}, "error"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module(input()))\n"}, "error"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module(f'models.{input()}'))\n"}, "error"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module('heads.' + input()))\n"}, "info"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module('models.net'))\n"}, "info"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module('models.old'))\n"}, "error"),
        ({"pick.py": "for name in ['numpy', 'head']:\n    __import__(name)\n"}, "info"),
        ({"pick.py": "needed = ['numpy', 'old']\nfor name in needed:\n    __import__(name)\n"}, "error"),
        (
            {"pick.py": "for name in ['numpy', 'head']:\n    __import__(name)\nname = input()\n__import__(name)\n"},
            "error",
        ),
        ({"pick.py": "import importlib.util\n\nprint(importlib.util.find_spec(input()))\n"}, "info"),
        ({"pick.py": LOADER.format("'models/net.py'")}, "info"),
        ({"pick.py": LOADER.format("Path(__file__).parent / 'old.py'")}, "error"),
        ({"pick.py": LOADER.format("input()")}, "error"),
        ({"pick.py": "spec.loader.exec_module(module)\n"}, "error"),
        ({"pick.py": LOADER.format("'head.py'") + "from importlib.util import find_spec\n"}, "error"),
        ({"pick.py": "from importlib.util import spec_from_file_location as of\nof('m', input())\n"}, "error"),
        ({"pick.py": "import imp\n\nload = imp.load_source\nload('m', input())\n"}, "error"),
        (
            {"pick.py": "needed = ['numpy']\nneeded.append(input())\nfor name in needed:\n    __import__(name)\n"},
            "error",
        ),
        ({"pick.py": "path = 'head.py'\npath += input()\n" + LOADER.format("path")}, "error"),
        ({"pick.py": "import sys as name\n\nname = 'head'\n__import__(name)\n"}, "error"),
        ({"tests/helper.py": "def load(name):\n    return __import__(name)\n"}, "error"),
        (
            {"tests/test_imports.py": "import importlib\n\n\ndef test_it():\n    importlib.import_module(NAME)\n"},
            "info",
        ),
        ({"pick.py": "import pkgutil\n"}, "error"),
        ({"models/__init__.py": "import os\n\n__all__ = [one[:-3] for one in os.listdir('.')]\n"}, "error"),
        ({"models/__init__.py": "__all__ = ['old']\n"}, "error"),
        ({"pyproject.toml": "[project]\nname = 'nets'\n"}, "error"),
        ({"setup.py": "setup(packages=find_packages())\n"}, "error"),
        ({"setup.py": "setup(ext_modules=[Extension('fast', ['fast.c'])])\n"}, "info"),
        ({"models/old.py": OLD + "\n\nprint(Old())\n"}, "error"),
        ({"models/old.py": OLD + '\n\nif __name__ == "__main__":\n    print(Old())\n'}, "error"),
        ({"models/old.py": OLD + "\n\nSIZES = torch.ones(3)\n"}, "info"),
        ({"models/wide.py": NET, "models/deep.py": NET}, "error"),
        ({"train.py": "from models.net import Net\nfrom models.head import LIMIT\n"}, "error"),
    ],
)
def test_a_file_that_nothing_leads_to(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    assert severities(tmp_path, APPLICATION | others, "models/old.py") == [severity]


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"models/past/net.py": NET, "export.py": "from models.past.net import Net\n\nprint(Net())\n"}, "error"),
        ({"models/wide.py": NET, "models/deep.py": NET, "models/flat.py": NET}, "error"),
    ],
)
def test_a_folder_that_nothing_leads_to(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    files = {name.replace("models/old", "models/past/old"): text for name, text in APPLICATION.items()}
    assert severities(tmp_path, files | others, "models/past/old.py") == [severity]


def test_a_file_alone_is_not_left_behind(tmp_path: Path) -> None:
    assert severities(tmp_path, {"old.py": OLD}, "old.py") == ["error"]
    assert severities(tmp_path / "more", {"old.py": OLD, "net.py": NET}, "old.py") == ["error"]


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({"pick.py": "import sys\nimport net\n\nprint(getattr(net, sys.argv[1])())\n"}, "error"),
        ({"pick.py": "import sys\nimport net\n\nprint(net.Net(sys.argv[1]))\n"}, "info"),
        ({"pick.py": "import net as n\n\nprint(getattr(n, input())(**{'width': 3}))\n"}, "info"),
        ({"pick.py": "import net as n\n\nprint(getattr(n, input())(**dict(width=3)))\n"}, "error"),
        ({"pick.py": "import net as n\n\nmake = getattr(n, input())\nprint(make(width=3))\n"}, "error"),
        ({"pick.py": "import net as n\n\nprint(pick(n)(width=3), getattr(3, input()))\n"}, "error"),
        ({"more.py": "from net import *\n", "pick.py": "import more\n\nprint(getattr(more, input())())\n"}, "error"),
        ({"more.py": "from net import *\n\nprint(globals()[input()]())\n"}, "error"),
        ({"more.py": "from net import *\n\nprint(Net())\n"}, "info"),
    ],
)
def test_a_class_that_comes_with_all_names_of_its_file(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    net = "from parts import *\n" + NET.replace("x + 1", "x + part(x)")
    old = OLD.replace("    def forward", "    def __init__(self):\n        super().__init__()\n\n    def forward")
    files = {"parts.py": "def part(x):\n    return x\n\n\n" + old, "net.py": net, **others}
    assert severities(tmp_path, files, "parts.py") == [severity]


PARTS = (
    OLD.replace("Old", "Block")
    + "\n\nclass Gate(nn.Module):\n    def forward(self, x):\n        return x * 2\n\n\ndef half(x):\n    return x / 2\n"
)
GATED = HEAD.replace("\n\n\n", "\n\nfrom blocks.parts import Gate\n\n\n") + (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.gate = Gate()\n"
    "\n    def forward(self, x):\n        return self.gate(x)\n"
)
GATES = {"blocks/parts.py": PARTS, "models/net.py": GATED, "train.py": PROGRAM}


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"blocks/parts.py": PARTS + '\n__all__ = ["Block", "Gate"]\n'}, "info"),
        ({"blocks/__init__.py": "from . import parts\n"}, "info"),
        ({"blocks/__init__.py": "from .parts import Block, Gate\n\n__all__ = ['Block', 'Gate']\n"}, "info"),
        ({"blocks/__init__.py": "from .parts import Block\n\nKINDS = [Block]\n"}, "error"),
        ({"notes.py": "from blocks.parts import half\n\n# half(Block())\n"}, "info"),
        ({"train.py": PROGRAM + "    from blocks import Gate\n    print(Gate())\n"}, "error"),
        ({"train.py": PROGRAM + "    from blocks.parts import Gate, Block\n"}, "error"),
        ({"train.py": PROGRAM + "    import blocks\n    print(getattr(blocks, sys.argv[2])())\n"}, "error"),
        ({"train.py": PROGRAM + "    import blocks.parts\n    print(getattr(blocks, sys.argv[2])())\n"}, "error"),
        ({"train.py": PROGRAM + "    import blocks.parts as b\n    print(getattr(b, sys.argv[2])())\n"}, "error"),
        ({"train.py": PROGRAM + "    import models.net as net\n    print(getattr(net, sys.argv[2])())\n"}, "info"),
        ({"train.py": "from blocks import *\n" + PROGRAM + "    print(eval(sys.argv[2])())\n"}, "error"),
        ({"train.py": PROGRAM + "    print(nn.Module.__subclasses__())\n"}, "error"),
        ({"train.py": "from models.net import Net\n\nprint(Net())\n"}, "error"),
        ({"hubconf.py": "from blocks.parts import Block\n"}, "error"),
        ({"net.yaml": "head: Block\n"}, "error"),
        ({"notes.ipynb": '{"cells": [], "metadata": {"Block": 1}}'}, "error"),
        ({"pyproject.toml": "[project]\nname = 'nets'\n"}, "error"),
        ({"setup.py": "setup(packages=find_packages())\n"}, "error"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module('blocks.' + input()))\n"}, "error"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module('.'.join(['heads', input()])))\n"}, "info"),
        ({"pick.py": "import importlib\n\nprint(importlib.import_module('.'.join(['blocks', input()])))\n"}, "error"),
        (
            {
                "pick.py": "import importlib\n\nname = '.'.join(('heads', input()))\nprint(importlib.import_module(name))\n"
            },
            "info",
        ),
        (
            {"pick.py": "import importlib\n\nname = '.'.join(input())\nprint(importlib.import_module(name))\n"},
            "error",
        ),
        ({"blocks/parts.py": PARTS + "\n\nLAYERS = [Block]\n"}, "error"),
    ],
)
def test_a_class_that_an_application_does_not_name(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    files = GATES | {"blocks/__init__.py": "from .parts import *\n"} | others
    assert severities(tmp_path, files, "blocks/parts.py") == [severity]


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"export.py": "from models.old import Old\n\nprint(Old())\n"}, "error"),
        ({"pyproject.toml": "[project]\nname = 'nets'\n"}, "error"),
        ({"train.py": "from models.net import Net\nfrom models.head import LIMIT\n"}, "error"),
    ],
)
def test_nobody_trains_what_nothing_leads_to(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    hidden = HEAD + (
        "class Old(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = [nn.Linear(4, 4)]\n\n    def forward(self, x):\n        return self.parts[0](x)\n"
    )
    files = APPLICATION | {"models/old.py": hidden} | others
    assert severities(tmp_path, files, "models/old.py", "REG001") == [severity]


@pytest.mark.parametrize(
    ("backup", "others", "severity"),
    [
        ("models/net-20180825.py", {}, "info"),
        ("old/models/net # first.py", {}, "info"),
        ("models/net (1).py", {"run.sh": "python 'models/net (1).py'\n"}, "error"),
        ("models/net-20180825.py", {"pyproject.toml": "[project]\nname = 'nets'\n"}, "error"),
        ("models/other-20180825.py", {}, "error"),
        ("models/net-big.py", {}, "error"),
        ("models/net-old.py", {}, "info"),
        ("models/net copy.py", {}, "info"),
        ("net-20180825.py", {}, "error"),
    ],
)
def test_a_backup_of_a_file(tmp_path: Path, backup: str, others: dict[str, str], severity: str) -> None:
    # A collection, of which another file may be taken.
    collection = {f"models/net_{number}.py": NET for number in range(4)}
    files = {"models/net.py": NET, "models/__init__.py": "", backup: OLD} | collection | others
    assert severities(tmp_path, files, backup) == [severity]


LAYERED = NET + "\nfrom layers.gate import Net as Gate\nfrom layers.mix import Net as Mix\n"
TASKS = {"first/models/net.py": LAYERED, "first/layers/block.py": OLD, "first/layers/gate.py": NET} | {
    "second/models/net.py": LAYERED,
    "second/layers/gate.py": NET,
    "first/layers/mix.py": NET,
    "second/layers/mix.py": NET,
    "first/train.py": PROGRAM,
    "second/train.py": PROGRAM,
}


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"second/models/net.py": LAYERED + "from layers.block import Old\n\nold = Old()\n"}, "error"),
        (
            {
                "second/layers/block.py": OLD,
                "second/models/net.py": LAYERED + "from layers.block import Old\n\nold = Old()\n",
            },
            "info",
        ),
        ({"first/models/net.py": LAYERED + "from layers.block import Old\n\nold = Old()\n"}, "error"),
        ({"first/layers/gate.py": NET + "from layers.block import Old\n"}, "info"),
        ({"second/train.py": PROGRAM + "    print('first/layers/block.py')\n"}, "error"),
        ({"first/train.py": PROGRAM.replace("sys", "os")}, "info"),
        ({"first/train.py": "from models.net import Net\n"}, "error"),
        ({"first/train.py": "", "first/train_test.py": PROGRAM}, "info"),
    ],
)
def test_a_program_imports_what_stands_in_its_own_folder(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    assert severities(tmp_path, TASKS | others, "first/layers/block.py") == [severity]


BY_NAME = NET.replace("        return x + 1", "        return self.lin.forward(x)").replace(
    "    def forward",
    "    def __init__(self):\n        super().__init__()\n        self.lin = nn.Linear(4, 4)\n\n    def forward",
)


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"tools.py": HEAD + "nn.utils.weight_norm(print)\n"}, "warning"),
        ({"tools.py": HEAD + "def look(net, f):\n    net.register_forward_hook(f)\n"}, "warning"),
        ({"tools.py": HEAD + "net = torch.compile(print)\n"}, "warning"),
        ({"tools.py": "import re\nimport torch\n\nNAME = re.compile('a')\n"}, "info"),
        ({"pyproject.toml": "[project]\nname = 'nets'\n"}, "warning"),
        ({"train.py": ""}, "warning"),
    ],
)
def test_a_call_of_forward_where_nothing_sets_hooks(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    files = {"models/net.py": BY_NAME, "train.py": PROGRAM} | others
    assert severities(tmp_path, files, "models/net.py", "FLW007") == [severity]


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        ({"models/old.py": OLD}, "info"),
        ({"old.py": OLD}, "info"),
        ({"models/old.py": OLD + "\n"}, "error"),
        ({"models/older.py": OLD}, "error"),
        ({"runs/one/old.py": OLD}, "error"),
        ({}, "error"),
    ],
)
def test_a_copy_that_a_run_has_put_beside_its_results(tmp_path: Path, files: dict[str, str], severity: str) -> None:
    assert severities(tmp_path, {"log/seg/best/old.py": OLD} | files, "log/seg/best/old.py") == [severity]
    for name in files:
        assert severities(tmp_path / "again", {"log/old.py": OLD} | files, name) == ["error"]
        break


LOADS = HEAD + (
    "class Net(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    "\n    def restore(self, path):\n        self.load_state_dict(torch.load(path))\n"
)
RESTORED = {"models/net.py": LOADS, "train.py": PROGRAM}


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ({}, "info"),
        ({"notes.py": "# net.restore(path)\n"}, "info"),
        ({"old.py": "class Old:\n    def restore(self):\n        return 3\n"}, "info"),
        ({"train.py": PROGRAM + "    Net().restore(sys.argv[2])\n"}, "warning"),
        ({"train.py": PROGRAM + "    getattr(Net(), sys.argv[2])(3)\n"}, "warning"),
        ({"train.py": PROGRAM + "    getattr(Net(), f're{sys.argv[2]}')(3)\n"}, "warning"),
        ({"train.py": PROGRAM + "    getattr(Net(), f'layer{sys.argv[2]}')(3)\n"}, "info"),
        ({"train.py": PROGRAM + "    getattr(sys, sys.argv[2])(3)\n"}, "info"),
        ({"train.py": PROGRAM + "    Net().__dict__\n"}, "warning"),
        ({"notes.py": "START = 'restore'\n"}, "warning"),
        ({"net.yaml": "call: restore\n"}, "warning"),
        ({"notes.ipynb": '{"cells": [], "metadata": {"restore": 1}}'}, "warning"),
        ({"pyproject.toml": "[project]\nname = 'nets'\n"}, "warning"),
        ({"train.py": "from models.net import Net\n\nprint(Net())\n"}, "warning"),
        (
            {
                "models/net.py": LOADS.replace("nn.Module", "other.Module").replace(
                    "import torch", "import other, torch"
                )
            },
            "warning",
        ),
        ({"models/net.py": LOADS.replace("    def restore", "    @torch.jit.export\n    def restore")}, "warning"),
        ({"models/net.py": LOADS.replace("restore", "extra_repr")}, "warning"),
    ],
)
def test_a_method_that_an_application_does_not_name(tmp_path: Path, others: dict[str, str], severity: str) -> None:
    assert severities(tmp_path, RESTORED | others, "models/net.py", "DEV002") == [severity]


ASKED = HEAD + (
    "class Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
    "        self.lin = nn.Linear({asked}, 4)\n        self.mask = torch.zeros(4)\n"
    "\n    def forward(self, x):\n        return self.lin(x) + self.mask\n"
)


@pytest.mark.parametrize(
    ("asked", "others", "severity"),
    [
        ("self.width", {}, "info"),
        ("width", {}, "warning"),
        ("self.training + 1", {}, "warning"),
        ("self.width if width else 4", {}, "warning"),
        ("self.width", {"wide.py": "from models.net import Net\n\n\nclass Wide(Net):\n    width = 8\n"}, "warning"),
        ("self.width", {"wide.py": "from models.net import Net\n\nNet.width = 8\n"}, "warning"),
        ("self.width", {"train.py": "", "models/head.py": ""}, "warning"),
    ],
)
def test_a_constructor_that_asks_for_what_nothing_sets(
    tmp_path: Path, asked: str, others: dict[str, str], severity: str
) -> None:
    files = {"models/net.py": ASKED.format(asked=asked), "train.py": PROGRAM} | others
    assert severities(tmp_path, files, "models/net.py", "REG006") == [severity]


@pytest.mark.parametrize("inside", ["width = 8", "def width(self):\n        return 8", "__getattr__ = print"])
def test_a_constructor_that_asks_for_what_the_class_has(tmp_path: Path, inside: str) -> None:
    net = ASKED.format(asked="self.width").replace("    def __init__", f"    {inside}\n\n    def __init__")
    assert severities(tmp_path, {"models/net.py": net, "train.py": PROGRAM}, "models/net.py", "REG006") == ["warning"]


@pytest.mark.parametrize(
    ("functions", "severity"),
    [
        (("export_torchscript", "export_onnx", "export_pnnx", "test_inference"), "info"),
        (("export_torchscript", "export_onnx"), "error"),
    ],
)
def test_a_model_that_another_converter_wrote_out(tmp_path: Path, functions: tuple[str, ...], severity: str) -> None:
    text = OLD + "".join(f"\n\ndef {name}():\n    print(Old())\n" for name in functions)
    assert severities(tmp_path, {"old_pnnx.py": text}, "old_pnnx.py") == [severity]
