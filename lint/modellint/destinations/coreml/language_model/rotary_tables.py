"""Tables of rotary positions: cosines and sines computed once, where float16 would compute angles too coarsely."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

_VARYING = ("dynamic", "longrope")
"""Kinds of frequencies that depend on the length of the text."""


class RotaryTable(nn.Module):
    """Cosines and sines of all positions of a context, in the place of a module that computes them from angles.

    Between 64 and 128 radians numbers of float16 are 1/16 apart, so that a rotation by such an angle is off by as much.

    Args:
        tables: Of each kind of layer the cosines and sines, of 1 x context x size; the kind is empty where there is one alone.
    """

    def __init__(self, tables: dict[str, tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.kinds = list(tables)
        for at, (cosines, sines) in enumerate(tables.values()):
            self.register_buffer(f"cosines_{at}", cosines)
            self.register_buffer(f"sines_{at}", sines)

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        """Cosines and sines of 1 x N x size, for positions of 1xN; of text those of time, height and width are the same."""
        at = self.kinds.index(layer_type or "")
        places = position_ids.reshape(-1, position_ids.shape[-1])[0]
        cosines, sines = getattr(self, f"cosines_{at}"), getattr(self, f"sines_{at}")
        return cosines.index_select(1, places), sines.index_select(1, places)


def tabulate(model: nn.Module, context: int) -> None:
    """Put tables into a model of transformers, in the place of its modules of rotary positions."""
    for name, module in list(model.named_modules()):
        if (table := _table(module, context)) is not None:
            model.set_submodule(name, table)


def _table(module: nn.Module, context: int) -> RotaryTable | None:
    """The table of a module of rotary positions; None for another, and for one whose frequencies depend on the length."""
    frequencies = [name for name, _ in module.named_buffers(recurse=False) if name.endswith("inv_freq")]
    parameters = list(inspect.signature(module.forward).parameters)
    if not frequencies or parameters[:2] != ["x", "position_ids"] or any(kind in _VARYING for kind in _kinds(module)):
        return None
    config: Any = getattr(module, "config", None)
    layers = dict.fromkeys(getattr(config, "layer_types", None) or ()) if "layer_type" in parameters else {"": None}
    places = torch.arange(context).unsqueeze(0)
    tables: dict[str, tuple[Tensor, Tensor]] = {}
    for kind in layers:
        with torch.no_grad():
            table = module(torch.zeros(1), places, *([kind] if kind else ()))
        if not isinstance(table, tuple) or len(table) != 2 or any(part.shape[:2] != places.shape for part in table):
            return None
        tables[kind] = (table[0].clone(), table[1].clone())
    return RotaryTable(tables) if tables else None


def _kinds(module: nn.Module) -> Iterator[str]:
    """The kinds of frequencies that a module has."""
    kind = getattr(module, "rope_type", "default")
    yield from (map(str, kind.values()) if isinstance(kind, dict) else (str(kind),))
