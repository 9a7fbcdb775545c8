"""What is told of supplied converters is what they declare."""

from __future__ import annotations

import json
from importlib import resources

from click.testing import CliRunner

from modellint import check_source
from modellint.cli import cli
from modellint.data import supplied_converters
from modellint.measure.generate_supplied_table import text


def test_the_file_is_what_the_converters_declare() -> None:
    written = resources.files("modellint.data").joinpath(supplied_converters.FILE).read_text("utf-8")
    assert written == text(), "run `python -m modellint.measure.generate_supplied_table`"


def test_names_of_operators_lead_to_their_converters() -> None:
    for name in ("aten::fmod", "aten::fmod_", "aten::where.ScalarOther", "aten::__and__", "aten::new_ones.default"):
        assert supplied_converters.exactness(name) is not None
    assert supplied_converters.exactness("aten::relu") is None


def test_ops_and_findings_say_the_same() -> None:
    (found,) = json.loads(CliRunner().invoke(cli, ["ops", "i0", "--output-format", "json"]).stdout)
    assert (found["supplied"], found["mended"]) == ("≤ 32 ulps", None)
    assert "modellint export supplies a converter (≤ 32 ulps)" in CliRunner().invoke(cli, ["ops", "i0"]).stdout
    (argmax,) = json.loads(CliRunner().invoke(cli, ["ops", "argmax", "--output-format", "json"]).stdout)
    assert (argmax["supplied"], argmax["mended"]) == (None, "bit-equal")
    source = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return torch.i0(x)\n"
    (finding,) = check_source(source).diagnostics
    assert finding.message.endswith("has no converter for `aten::i0`; `modellint export` supplies one (≤ 32 ulps)")
