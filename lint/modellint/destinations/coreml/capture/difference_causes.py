"""Differences of a capture: why the captured program computes something else than the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

from modellint.live.code.anchor_statements import changing
from modellint.live.code.places import Project, statement_at
from modellint.live.mode_dependence import depends_on_mode
from modellint.live.subject import Subject
from modellint.live.unregistered_state import unregistered_state
from modellint.results.verification import FirstDifference, Lost
from modellint.settings import Destination

if TYPE_CHECKING:
    from modellint.destinations.comparison.reference_runs import Changed
    from modellint.destinations.coreml.convert.conversion import TakenNumber
    from modellint.live.inputs.model_inputs import Inputs


def of_capture(
    changed: Sequence[Changed], taken: Sequence[TakenNumber], model: nn.Module, project: Project, case: str
) -> FirstDifference | None:
    """Why the captured program is another model: state that it does not keep, or numbers and branches of the example's."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for change in changed:
        module = modules.get(change.module)
        place = None if module is None else changing(type(module), change.attribute)
        name = f"{change.module}.{change.attribute}" if change.module else change.attribute
        message = f"every run changes `{name}`; the program holds the value that it had when it was captured"
        lost = (Lost("update", place, change.module),)
        return FirstDifference("capture", message, None, None, None, place, change.module, 0.0, (), case, lost)
    own = [number for number in taken if project.owns(number.path)] or list(taken)
    for number in own:
        place = statement_at(number.path, number.row)
        message = "the trace holds the branch or the number that the example's values lead to"
        return FirstDifference("capture", message, None, None, None, place, "", 0.0, (), case)
    return None


def left_in_training(model: nn.Module, inputs: Inputs, project: Project) -> FirstDifference | None:
    """A module in training mode that ``model.eval()`` does not reach, as PyTorch does not know of it."""
    subject = Subject(model, inputs, project.root, Destination())
    for hidden in unregistered_state(subject):
        if not isinstance(hidden.value, nn.Module):
            continue
        if any(module.training and depends_on_mode(module) for module in hidden.value.modules()):
            path = hidden.places[0]
            place = subject.attribute_place(hidden.owner, hidden.attribute)[1]
            message = f"`{path}` is in training mode, as eval() does not reach it, and so is what is converted"
            return FirstDifference("mode", message, None, None, None, place, path, 0.0, (), "the example")
    return None
