"""Models judged for Core AI by one process of the converter, as its start takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from modellint.destinations.coreai.conversion import Converter
from modellint.destinations.coreai.converter_process import ConverterProcess
from modellint.destinations.coreai.verify import verify
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.conversion_verdict import Blocker
from modellint.results.verification import Verification


def judged(
    process: ConverterProcess, model: nn.Module, example: Any, root: Path, supplies: bool = False
) -> tuple[Verification, tuple[Blocker, ...]]:
    """The comparison of a model, on its example and a few sets like it, and what keeps it from converting.

    ``supplies``: converted as an export does, with decompositions of our own.
    """
    converter = Converter(process, supplies)
    inputs = Inputs.of(example)
    verification = verify(model.eval(), inputs, Project(root), converter, budget=5)
    return verification, converter.converted(model, inputs, Project(root)).blockers
