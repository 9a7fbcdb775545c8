"""Example run of a converted package: some programs convert, and Apple's interpreter cannot run them, or dies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.capture.blocker_places import grouped
from modellint.destinations.capture.torch_export import Origin
from modellint.destinations.comparison.program import Misfit, RunError
from modellint.destinations.comparison.reference_runs import copied
from modellint.destinations.coreai.converter_process import ConverterProcess, Died, Failed, Frame, Hung
from modellint.destinations.coreai.interpreted_program import program_of
from modellint.results.conversion_verdict import Blocker

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreai.conversion import Converted
    from modellint.live.inputs.model_inputs import Inputs

_KERNEL = re.compile(r'kernelName: "([^"]+)".*?Kind\.(\w+)')
"""Of the interpreter's words the kernel that refuses, and why."""


def stops(process: ConverterProcess, converted: Converted, model: nn.Module, inputs: Inputs) -> tuple[Blocker, ...]:
    """Why the interpreter cannot run a converted package on the example; nothing where it can, or takes too long to tell."""
    leaves = copied(pytree.tree_leaves((tuple(inputs.args), dict(inputs.kwargs))))
    try:
        program_of(process, converted, model).in_a_row([leaves])
    except Misfit:
        return ()
    except RunError as error:
        assert converted.places is not None
        place = converted.places.of_model()
        if isinstance(error.__cause__, Hung):
            return ()
        if isinstance(error.__cause__, Died):
            return (Blocker("run", None, f"it {error.__cause__}", place),)
        message = _shortened(str(error.__cause__ or error))
        nodes = _failing(process, converted.package, [leaf for leaf in leaves if isinstance(leaf, Tensor)])
        if not nodes:
            return (Blocker("run", None, message, place),)
        at = ((node, converted.places.of(Origin(node.operator, node.frames, node.module))) for node in nodes)
        return tuple(grouped(Blocker("run", node.operator, message, *where) for node, where in at))
    return ()


def _failing(process: ConverterProcess, package: str, leaves: Sequence[Tensor]) -> tuple[Frame, ...]:
    """The nodes that cannot be run, as far as that can be told."""
    try:
        return process.that_fail(package, leaves)
    except (Died, Failed):
        return ()


def _shortened(message: str) -> str:
    found = _KERNEL.search(message)
    return message if found is None else f"{found[1]}: {found[2]}"
