"""The page on how cost grows holds the figures that were measured, and what the benchmark tells of times is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import modellint

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

import cost_of_growth as cost

ROOT = Path(__file__).resolve().parent.parent.parent
FIGURES: dict[str, Any] = json.loads((ROOT / "benchmarks" / "cost_of_growth.json").read_text("utf-8"))
AGAIN = "run `python benchmarks/cost_of_growth.py --from benchmarks/cost_of_growth.json --plots docs/pictures --page docs/cost.md`"


def told(name: str, start: float, each: float, power: float) -> dict[str, Any]:
    """The figures of a row whose time is known."""
    row = cost.ROWS[name]
    return cost.figures(row, {size: start + each * size**power for size in cost.sizes(row)})


def test_page_has_the_figures() -> None:
    text = (ROOT / "docs" / "cost.md").read_text("utf-8")
    assert cost.page(text, FIGURES) == text, AGAIN


def test_pictures_have_the_figures() -> None:
    folder = ROOT / "docs" / "pictures"
    plots = cost.plots(FIGURES)
    assert {file.name for file in folder.glob("cost-*.svg")} == set(plots)
    for name, text in plots.items():
        assert (folder / name).read_text("utf-8") == text, AGAIN


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponent_is_that_of_the_growth(power: float) -> None:
    figures = told("classes", 0.0, 0.01, power)
    assert figures["exponent"] == power == figures["exponent-above"]
    assert figures["ratios"] == pytest.approx([factor**power for factor in cost.FACTORS], abs=1e-3)


def test_start_is_told_apart() -> None:
    figures = told("files", 1.0, 0.02, 1.0)
    assert figures["exponent"] < 0.9
    assert figures["exponent-above"] == 1.0
    assert figures["above"] == [1, 2, 4, 8]


def test_little_above_the_start_has_no_exponent() -> None:
    figures = told("files-again", 1.0, 0.0001, 1.0)
    assert figures["exponent-above"] is figures["above"] is None
    assert "| – |" in cost.table({**FIGURES, "rows": [figures]})


def test_workers_have_no_start_and_fall() -> None:
    figures = told("workers", 0.0, 16.0, -1.0)
    assert figures["nothing"] is None
    assert figures["exponent"] == -1
    assert "| −1.00 |" in cost.table({**FIGURES, "rows": [figures]})


@pytest.mark.parametrize("name", cost.PLOTS)
@pytest.mark.parametrize(("start", "power"), [(0.2, 0.1), (0.2, 1.0), (0.2, 2.0), (0.0, 1.0), (1.0, 0.0)])
def test_picture_of_any_growth_is_whole(name: str, start: float, power: float) -> None:
    rows = [
        told(row.name, start, 0.01, -power if row.is_parallel else power)
        for row in cost.ROWS.values()
        if name in (row.name, row.plot)
    ]
    (text,) = cost.plots({**FIGURES, "rows": rows}).values()
    picture = ElementTree.fromstring(text)
    width, height = (float(picture.attrib[side]) for side in ("width", "height"))
    assert picture[0].text is not None and picture[0].text.startswith(cost.PLOTS[name])
    for line in picture.iter("{http://www.w3.org/2000/svg}polyline"):
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert len(points) == len(cost.FACTORS)
        assert all(0 < x < width and 0 < y < height for x, y in points)


def test_generated_classes_have_the_findings_that_are_expected() -> None:
    text, findings = cost.classes(11)
    assert [one.code for one in modellint.check_source(text).diagnostics] == ["REG001"] * findings == ["REG001"] * 3
