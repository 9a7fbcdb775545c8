"""Runs of the programs of Core AI's known faults.

``python -m modellint.measure.coreai_faults``, with coreai-torch and torch, converts each alone and as an export does, has Apple's
interpreter run it, and writes ``data/coreai_faults.json``; ``python docs/make.py faults`` writes the page of that.
"""

from __future__ import annotations

import textwrap
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from modellint.data.coreai_faults import Fault, Faults, read, write
from modellint.destinations.comparison.program import Misfit, RunError
from modellint.destinations.comparison.tensor_difference import compare
from modellint.destinations.coreai.conversion import captured
from modellint.destinations.coreai.converter_process import ConverterProcess, Died, Failed
from modellint.destinations.coreai.interpreted_program import CoreAIProgram
from modellint.live.inputs.model_inputs import Inputs

_LIMITS = {torch.float16: 1e-2}
"""The largest error over the output's scale that is taken for rounding, where it is not 1e-5."""


def outcome(fault: Fault, process: ConverterProcess, supplies: bool) -> tuple[str, str, str]:
    """``wrong``, ``right``, ``refused`` or ``fails`` (while it is converted, or run); PyTorch's numbers, and the interpreter's."""
    scope: dict[str, Any] = {}
    exec(fault.program, scope)
    model, inputs = scope["make"]()
    with torch.no_grad():
        expected = model.eval()(*(tensor.clone() for tensor in inputs))
        program = captured(model, Inputs(tuple(inputs)))[0] if supplies else torch.export.export(model, tuple(inputs))
    package = process.new_path("fault.aimodel")
    try:
        prepared = process.prepare(program, package, supplies=supplies)
    except Died as error:
        return "fails", shown(expected), f"the converter {error}"
    except Failed as error:
        return "refused", shown(expected), str(error)
    if prepared.interface is None:
        return "refused", shown(expected), "; ".join(refusal.message for refusal in prepared.refusals)
    try:
        ((found,),) = CoreAIProgram(process, package, prepared.interface, {}).in_a_row([inputs])
    except (RunError, Misfit) as error:
        return "fails", shown(expected), textwrap.shorten(str(error), 160)
    right = found.dtype.is_floating_point == expected.dtype.is_floating_point and compare(found, expected).agrees(
        _LIMITS.get(expected.dtype, 1e-5)
    )
    return "right" if right else "wrong", shown(expected), shown(found)


def shown(tensor: Tensor) -> str:
    """The numbers of a tensor, as Python writes them in few digits."""

    def words(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(words, value))}]"
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    return words(tensor.tolist())


def run() -> None:
    """Run all, and write the file."""
    faults = []
    with ConverterProcess() as process:
        for fault in read().faults:
            result, expected, obtained = outcome(fault, process, False)
            exported, _, _ = outcome(fault, process, True)
            faults.append(fault._replace(result=result, expected=expected, obtained=obtained, exported=exported))
            print(fault.id, result, exported, flush=True)
    versions = metadata.version("coreai-torch"), metadata.version("coreai-core"), torch.__version__.partition("+")[0]
    write(Faults(*versions, tuple(faults)))


if __name__ == "__main__":
    run()
