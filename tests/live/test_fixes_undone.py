"""A fix after which the model does not run, or computes something else, is taken back and told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import modellint

X = torch.randn(2, 4)


class Asks(nn.Module):
    """Computes with a list of layers, and asks for what a fix changes."""

    def __init__(self, ask: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Dropout()]
        self.ask = ask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.ask(self, x)


def _is_as_it_was(model: Any) -> bool:
    return type(model.layers) is list and not list(model.children())


def _raises(model: Any, x: torch.Tensor) -> torch.Tensor:
    if not _is_as_it_was(model):
        raise LookupError("no plain list")
    return x


def _differs(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x if _is_as_it_was(model) else x + 1


def _differs_by_a_rounding(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x if _is_as_it_was(model) else x * (1 + 2**-23)


def _differs_on_large_ones(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x if _is_as_it_was(model) or float(x.detach().abs().max()) < 20 else -x


def _has_another_shape(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x if _is_as_it_was(model) else x[:1]


def _gives_two(model: Any, x: torch.Tensor) -> Any:
    return x if _is_as_it_was(model) else (x, x)


def _has_another_gradient(model: Any, x: torch.Tensor) -> torch.Tensor:
    # The same number.
    return x if _is_as_it_was(model) else x.detach() + (x - x.detach()) * 2


UNDONE = [
    (_raises, "LookupError: no plain list"),
    (_differs, "the outputs differ on the example"),
    (_differs_by_a_rounding, "the outputs differ on the example"),
    (_differs_on_large_ones, "the outputs differ on"),
    (_has_another_shape, "other outputs on the example"),
    (_gives_two, "other outputs on the example"),
    (_has_another_gradient, "the gradient of a parameter differs on the example"),
]


@pytest.mark.parametrize(("ask", "why"), UNDONE, ids=[ask.__name__[1:] for ask, _ in UNDONE])
def test_what_does_not_hold_is_taken_back_and_told(ask: Any, why: str) -> None:
    model = Asks(ask).eval()
    expected = model(X)
    fixed, report = modellint.fix_model(model, example_inputs=(X,))
    assert [(one.code, one.title) for one in report.undone] == [
        ("REG001", "made a `ModuleList` of the list"),
        ("REG001", "registered the modules beside the list"),
    ]
    assert all(one.note.startswith(why) for one in report.undone), report.undone
    assert all(one.modules == ("layers[0]", "layers[1]") for one in report.undone)
    assert f"not fixed: REG001 made a `ModuleList` of the list (layers[0], layers[1]): {why}" in repr(report)
    # The dropout that the list hides is in evaluation mode all the same.
    assert {one.code for one in report.fixed} <= {"MOD001"}
    assert "REG001" in {one.code for one in report.diagnostics}
    assert _is_as_it_was(fixed)
    assert torch.equal(fixed(X), fixed(X))
    model.layers[1].eval()
    assert torch.equal(fixed(X), model(X))
    assert expected.shape == fixed(X).shape


def test_what_holds_beside_it_stays() -> None:
    """Each change of several is judged alone, where they do not hold together."""
    model = nn.Sequential(Asks(_differs), Asks(lambda _, x: x), nn.Linear(4, 4)).eval()
    fixed, report = modellint.fix_model(model, example_inputs=(X,))
    assert {one.modules for one in report.undone} == {("0.layers[0]", "0.layers[1]")}
    assert [one.modules for one in report.fixed if one.code == "REG001"] == [("1.layers[0]", "1.layers[1]")]
    assert [type(part.layers) for part in (fixed[0], fixed[1])] == [list, nn.ModuleList]


class Saves(Asks):
    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"list": torch.zeros(1)} if _is_as_it_was(self) else {}


def test_no_key_is_lost() -> None:
    fixed, report = modellint.fix_model(Saves(lambda _, x: x).eval(), example_inputs=(X,))
    assert {one.note for one in report.undone} == {"`state_dict` would lose 'list'"}
    assert list(fixed.state_dict()) == ["list"]


class Table(nn.Module):
    """A tensor that is none of its buffers on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.randn(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table if not list(self.buffers()) else x


def test_a_tensor_that_is_to_be_no_buffer() -> None:
    model = Table().eval()
    fixed, report = modellint.fix_model(model, example_inputs=(X,))
    assert [(one.code, one.note) for one in report.undone] == [("REG006", "the outputs differ on the example")]
    assert report.fixed == ()
    assert torch.equal(fixed(X), model(X))
