"""Measurement of a version of coremltools: writes the file of the installed one below ``data/coreml``.

``python -m modellint.measure.coreml_version [--name NAME]``, in an environment that has the version, and torch. A state between two
versions is named by its commit, ``--name main-1234567``. What no environment tells by itself (the first numpy that breaks it) stays as
the file has it, or comes from the nearest older version. What retires a supplied converter is
bit-equal on its programs, by both routes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from modellint.data.coremltools_version_facts import FOLDER, VersionFacts, nearest
from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.entry_points import ct, registered, silence
from modellint.destinations.coreml.private.installed_capabilities import front_end_digest
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.conversion_verdict import ROUTES
from modellint.settings import Destination

RANKS = (2, 3, 4, 5)
SAMPLE = (-2.5, 0.0, 3.0, 1.0, -1.0, 0.5, 7.0, -0.0, 2.0, 4.0, -3.0, 6.0)


class Program(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        """Give what the function gives; what is an input as it is, is no output."""
        return self._function(x) + 0


def _whole(x: Tensor) -> Tensor:
    return (x * 4).to(torch.int32)


PROGRAMS: Mapping[str, tuple[Callable[[Tensor], Tensor], ...]] = {
    "alias": (torch.ops.aten.alias, lambda x: torch.ops.aten.alias(_whole(x))),
    "bitwise_or": (
        lambda x: torch.bitwise_or(x > 0, x > 1).to(torch.int32),
        lambda x: torch.bitwise_or(_whole(x), _whole(x + 1)),
    ),
    "bitwise_xor": (
        lambda x: torch.bitwise_xor(x > 0, x > 1).to(torch.int32),
        lambda x: torch.bitwise_xor(_whole(x), _whole(x + 1)),
    ),
    "l1_loss": (
        lambda x: nn.functional.l1_loss(x, x.flip(0)),
        lambda x: nn.functional.l1_loss(x, x.flip(1), reduction="sum"),
        lambda x: nn.functional.l1_loss(x, x.flip(0), reduction="none"),
    ),
    "masked_scatter": (
        lambda x: x.masked_scatter(x > 0, x.flip(0)),
        lambda x: x.masked_scatter(x[0] > 0, x.flip(0)),
        lambda x: _whole(x).masked_scatter(x < 0, _whole(x) + 1),
    ),
    "new_ones": (
        lambda x: x.new_ones(3, 1) * x,
        lambda x: x.new_ones(x.shape[0], 2),
        lambda x: x.new_ones((2, 3), dtype=torch.int32),
        lambda x: _whole(x).new_ones(2),
    ),
    "prod": (torch.prod, lambda x: _whole(x).prod(), lambda x: (x > 0).prod()),
    "prod.dim_int": (
        lambda x: x.prod(1),
        lambda x: x.prod(-2, keepdim=True),
        lambda x: _whole(x).prod(0),
        lambda x: (x > -3).prod(1),
    ),
    "tensor_split": (
        lambda x: x.tensor_split(3, 1)[0],
        lambda x: x.tensor_split(2)[1],
        lambda x: x.tensor_split((1, 3), 1)[1],
        lambda x: _whole(x).tensor_split(3, -1)[2],
    ),
    "unfold": (
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.unfold(0, 3, 2),
        lambda x: x.unfold(-1, 3, 3),
        lambda x: _whole(x).unfold(1, 2, 2),
    ),
    "where.scalarother": (lambda x: torch.where(x > 0, x, 2.0), lambda x: torch.where(x > 0, _whole(x), 2)),
}
"""What shows that coremltools' own converter is right, by the name it goes by. One without programs is never taken for right."""


def measured(name: str = ct.__version__) -> VersionFacts:
    """What is found out about the installed version, under a name."""
    return VersionFacts(
        name=name,
        coremltools=ct.__version__,
        digest=front_end_digest(),
        torch=torch.__version__.partition("+")[0],
        prelu_ranks=tuple(_prelu_ranks()),
        reads_unused=_reads_unused(),
        fuses_any_reader=_fuses_any_reader(),
        numpy_below=nearest(ct.__version__).numpy_below,
        retired=tuple(name for name in sorted(PROGRAMS.keys() & registered()) if all(map(_is_right, PROGRAMS[name]))),
    )


def _prelu_ranks() -> Iterator[int]:
    """The ranks at which a trace converts with slopes that differ."""
    layer = nn.PReLU(3).eval()
    layer.weight.data.copy_(torch.tensor([0.1, 0.2, 0.3]))
    for rank in RANKS:
        inputs = Inputs((torch.randn(2, 3, *[2] * (rank - 2)),))
        try:
            with captures(layer, inputs, Destination(), "trace") as sequence:
                convert(sequence[0], Destination(), "fp32")
        except NotConverted:
            continue
        yield rank


def _reads_unused() -> bool:
    """Whether an operator without a converter is refused though nothing uses its result."""
    exported: Any = torch.export.export(nn.ReLU().eval(), (torch.randn(2, 3),)).run_decompositions({})
    graph = exported.graph_module.graph
    first = next(node for node in graph.nodes if node.op == "call_function")
    with graph.inserting_after(first):
        graph.call_function(torch.ops.aten.fmod.Scalar, (first, 2.0))
    try:
        with silence():
            ct.convert(exported, skip_model_load=True)
    except (NotImplementedError, ValueError):
        return True
    return False


def _fuses_any_reader() -> bool:
    """Whether a stack that is split again is refused where another operation than a squeeze reads the parts."""

    def parts(x: Tensor) -> Tensor:
        first, second = torch.ops.aten.split.Tensor(torch.stack([x, x + 1], 1), 1, 1)
        return torch.add(first, second)

    try:
        with captures(Program(parts).eval(), Inputs((torch.randn(2, 3),)), Destination(), "trace") as sequence:
            convert(sequence[0], Destination(), "fp32")
    except NotConverted:
        return True
    return False


def _is_right(program: Callable[[Tensor], Tensor]) -> bool:
    """Whether plain coremltools converts a program by both routes to what gives the same numbers, bit for bit."""
    model, sample = Program(program).eval(), torch.tensor(SAMPLE).reshape(3, 4)
    for route in ROUTES:
        try:
            with captures(model, Inputs((sample,)), Destination(), route) as sequence:
                executor = Executor(convert(sequence[0], Destination(), "fp32").program)
        except NotConverted:
            return False
        (result,) = executor(dict(zip(executor.inputs, (sample,), strict=True))).values()
        if not torch.equal(result.double(), model(sample).double()):
            return False
    return True


def text(facts: VersionFacts) -> str:
    """The text of a version's file."""
    return json.dumps(facts._asdict(), indent=1, ensure_ascii=False) + "\n"


def place(facts: VersionFacts) -> Path:
    """The file of a version."""
    return FOLDER / f"{facts.name}.json"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default=ct.__version__)
    found_out = measured(parser.parse_args().name)
    place(found_out).write_text(text(found_out), "utf-8")
