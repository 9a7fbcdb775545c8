"""Model at rest: in evaluation mode, in silence, and with everything that a run changes restored afterwards."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch

from modellint.destinations.comparison.process_state_lock import TURN
from modellint.live.snapshot import Snapshot

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs

SMALL = 256 * 1024**2
"""Bytes of parameters up to which their numbers are kept and restored."""


@contextmanager
def silence() -> Iterator[None]:
    """Keep everything from logging, warning, and drawing progress bars; one thread at a time."""
    with (
        TURN,
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(disabled)


class Rest:
    """A model's state before a run, to which it is brought back after each.

    The numbers in parameters are kept where they are small; a model that writes to its own large weights in evaluation
    mode is not known.

    Args:
        model: Of any mode.
        others: What else is restored, such as inputs that are not copied.
    """

    def __init__(self, model: nn.Module, *others: object) -> None:
        weight = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        self._model = model
        self._snapshot = Snapshot(model, *others, values=weight <= SMALL)
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()] if weight > SMALL else []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """In evaluation mode, in silence, and with everything restored on leaving."""
        with ExitStack() as stack:
            stack.enter_context(silence())
            stack.enter_context(self._snapshot.restored())
            stack.callback(_restored, self._buffers)
            stack.enter_context(torch.no_grad())
            for module in self._model.modules():
                # An overridden `train` may do anything.
                vars(module)["training"] = False
            yield


@contextmanager
def at_rest(model: nn.Module, inputs: Inputs) -> Iterator[None]:
    """In evaluation mode, in silence, and with everything restored, as of ``Rest``."""
    with Rest(model, inputs).kept():
        yield


def _restored(saved: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for tensor, value in saved:
            if not torch.equal(tensor, value):
                tensor.copy_(value)
