"""Example run of a converted package: some programs convert, and Apple's interpreter cannot run them, or dies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.program import Misfit, RunError
from modellint.destinations.comparison.reference_runs import copied, copied_inputs
from modellint.destinations.comparison.tensor_difference import error_over_scale, loses_infinity
from modellint.destinations.coreai.conversion import blockers_at
from modellint.destinations.coreai.converter_process import ConverterProcess, Died, Failed, Frame
from modellint.destinations.coreai.interpreted_program import program_of
from modellint.results.conversion_verdict import Blocker

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreai.conversion import Converted
    from modellint.live.inputs.model_inputs import Inputs

_KERNEL = re.compile(r'kernelName: "([^"]+)".*?Kind\.(\w+)')
"""Of the interpreter's words the kernel that refuses, and why."""


_FAR = 0.01
"""The error over the scale of an output above which it is worth to ask whether that is rounding: a whole comparison costs more."""


class ExampleRun(NamedTuple):
    """How a package ran on the example."""

    stops: tuple[Blocker, ...]
    """Why the interpreter cannot run it; nothing where it can, or takes too long to tell."""
    outputs: Sequence[Tensor] | None = None
    """None where it did not run."""

    def is_far(self, model: nn.Module, inputs: Inputs) -> bool | None:
        """Whether the outputs are far from those of the model, which is at rest; None where that cannot be told."""
        if self.outputs is None:
            return None
        given = copied_inputs(inputs)
        try:
            leaves = pytree.tree_leaves(model(*given.args, **given.kwargs))
        except Exception:
            return None
        expected = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if len(expected) != len(self.outputs):
            return None
        return any(
            error_over_scale(value, reference) > _FAR or loses_infinity(value, reference)
            for value, reference in zip(self.outputs, expected, strict=True)
        )


def example_run(process: ConverterProcess, converted: Converted, model: nn.Module, inputs: Inputs) -> ExampleRun:
    """Run a converted package on the example."""
    leaves = copied(pytree.tree_leaves((tuple(inputs.args), dict(inputs.kwargs))))
    try:
        return ExampleRun((), program_of(process, converted, model).in_a_row([leaves])[0])
    except Misfit:
        return ExampleRun(())
    except RunError as error:
        assert converted.places is not None
        stop = error.__cause__
        message = f"it {stop}" if isinstance(stop, Died) else _shortened(str(stop or error))
        return ExampleRun(
            blockers_at(converted.places, stopping_nodes(process, converted.package, stop, leaves), "run", message)
        )


def stopping_nodes(
    process: ConverterProcess, package: str, stop: BaseException | None, leaves: Sequence[Any]
) -> tuple[Frame, ...]:
    """The nodes that cannot be run on inputs, or at which the process ends, as ``stop`` says, as far as that can be told."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    try:
        return (
            process.crashing_nodes(package, tensors)
            if isinstance(stop, Died)
            else process.failing_nodes(package, tensors)
        )
    except (Died, Failed):
        return ()


def _shortened(message: str) -> str:
    found = _KERNEL.search(message)
    return message if found is None else f"{found[1]}: {found[2]}"
