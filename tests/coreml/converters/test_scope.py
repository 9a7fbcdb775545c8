"""coremltools has the supplied converters within their scope, and nothing of them outside of it."""

from __future__ import annotations

import logging
import sys
import threading

import pytest
import torch
from torch import nn

from modellint.destinations.coreml.convert import conversion
from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.mil_programs import output_names
from modellint.destinations.coreml.supplied_converters import supplied
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")
DESTINATION = Destination()


def tables() -> list[list[tuple[str, object]]]:
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    return [list(_TORCH_OPS_REGISTRY.name_to_func_mapping.items()), list(PASS_REGISTRY.passes.items())]


class Product(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(x, x, x)


def converted(model: nn.Module, x: torch.Tensor, route: str = "trace") -> conversion.Converted:
    with captures(model.eval(), Inputs((x,)), DESTINATION, route, supplied=True) as found:
        return convert(found[0], DESTINATION, "fp32", supplied=True)


def test_tables_are_the_same_afterwards() -> None:
    before = tables()
    with supplied(DESTINATION):
        assert tables() != before
    assert tables() == before


def test_tables_are_the_same_after_an_exception() -> None:
    before = tables()
    with pytest.raises(ZeroDivisionError), supplied(DESTINATION):
        raise ZeroDivisionError
    assert tables() == before


@pytest.mark.parametrize("route", ["trace", "export"])
def test_conversion_leaves_nothing_behind(route: str) -> None:
    before, fast = tables(), torch.backends.mha.get_fastpath_enabled()
    converted(Product(), torch.randn(2, 3), route)
    assert tables() == before
    assert torch.backends.mha.get_fastpath_enabled() == fast
    with captures(Product(), Inputs((torch.randn(2, 3),)), DESTINATION, route) as found, pytest.raises(NotConverted):
        convert(found[0], DESTINATION, "fp32")


def test_used_tells_what_took_part() -> None:
    (used,) = converted(Product(), torch.randn(2, 3)).used
    assert (used.operator, used.kind, used.places) == ("aten::addcmul", "supplied", 1)
    assert used.exactness.startswith("≤ ")


def test_nothing_is_used_where_nothing_is_needed() -> None:
    assert converted(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.randn(2, 3)).used == ()


def test_what_is_mended_is_told_apart() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.var()

    (used,) = converted(Net(), torch.randn(2, 3)).used
    assert (used.operator, used.kind) == ("aten::var", "mended")


def switches() -> list[object]:
    return [torch.backends.mha.get_fastpath_enabled(), sys.stdout, sys.stderr, logging.root.manager.disable]


def test_threads_take_turns() -> None:
    before, before_switches, seen = tables(), switches(), []
    entered = threading.Barrier(3)

    def convert_one() -> None:
        entered.wait()
        seen.extend(converted(Product(), torch.randn(2, 3)).used[0].operator for _ in range(3))

    threads = [threading.Thread(target=convert_one) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == ["aten::addcmul"] * 9
    assert tables() == before
    assert switches() == before_switches


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, object]:
        return {"double": x * 2, "nothing": None, "more": {"half": x / 2}}


@pytest.mark.parametrize("route", ["trace", "export"])
def test_outputs_by_name(route: str) -> None:
    model, x = Named(), torch.randn(2, 3)
    made = converted(model, x, route)
    assert output_names(made.program) == ("double", "more_half")
    execute = Executor(made.program)
    results = execute(dict(zip(execute.inputs, [x], strict=True)))
    assert torch.equal(results["double"], x * 2)
    assert torch.equal(results["more_half"], x / 2)
    assert "forward" not in vars(model)
    assert set(model(x)) == {"double", "nothing", "more"}


class Beyond(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :2].as_strided((2, 2), (4, 2)) + 0


@pytest.mark.parametrize("route", ["trace", "export"])
def test_elements_that_are_not_the_tensors_own_are_refused(route: str) -> None:
    with pytest.raises(NotConverted, match="as_strided"):
        converted(Beyond(), torch.randn(2, 4), route)
