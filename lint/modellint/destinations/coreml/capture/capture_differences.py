"""Faults of a capture: why what was captured is another model than the one given."""

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
    from modellint.destinations.coreml.convert.conversion import TakenNumber
    from modellint.destinations.coreml.verify.reference_runs import Changed
    from modellint.live.inputs.model_inputs import Inputs


def of_capture(
    changed: Sequence[Changed], taken: Sequence[TakenNumber], model: nn.Module, project: Project, case: str
) -> FirstDifference | None:
    """Why what was captured is another model: state that it does not keep, or numbers and branches of the example's."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for one in changed:
        module = modules.get(one.module)
        place = None if module is None else changing(type(module), one.attribute)
        name = f"{one.module}.{one.attribute}" if one.module else one.attribute
        message = f"every run changes `{name}`; the program holds the value that it had when it was captured"
        return FirstDifference(
            "capture", message, None, None, None, place, one.module, 0.0, (), case, (Lost("update", place, one.module),)
        )
    own = [one for one in taken if project.owns(one.path)] or list(taken)
    for number in own:
        place = statement_at(number.path, number.row)
        message = "the trace holds the branch or the number that the example's values lead to"
        return FirstDifference("capture", message, None, None, None, place, "", 0.0, (), case)
    return None


def left_in_training(model: nn.Module, inputs: Inputs, project: Project) -> FirstDifference | None:
    """A module in training mode that ``model.eval()`` does not reach, as PyTorch does not know of it."""
    subject = Subject(model, inputs, project.root, Destination())
    for held in unregistered_state(subject):
        if not isinstance(held.value, nn.Module):
            continue
        if any(one.training and depends_on_mode(one) for one in held.value.modules()):
            path = held.places[0]
            place = subject.attribute_place(held.owner, held.attribute)[1]
            message = f"`{path}` is in training mode, as eval() does not reach it, and so is what is converted"
            return FirstDifference("mode", message, None, None, None, place, path, 0.0, (), "the example")
    return None
