"""Random models whose ``forward`` computes with what their attributes hide, and what two tests ask of them."""

from __future__ import annotations

import dataclasses
import functools
import threading
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import nn

from modellint.live.fixes.evaluation_mode import by_path
from modellint.live.subject import Subject
from modellint.live.unregistered_state import unregistered_state
from modellint.settings import Destination

WIDTH = 4


@dataclasses.dataclass
class Record:
    layer: nn.Module


def _plus(self: Any, x: torch.Tensor) -> torch.Tensor:
    return _in_a_row([nn.Identity()] + self.kept, x)  # noqa: RUF005


def _in_a_row(layers: Any, x: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        x = layer(x)
    return x


def _closure(layer: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: layer(x)


def _past_setattr(self: nn.Module, layers: list[nn.Module]) -> None:
    object.__setattr__(self, "kept", layers[0])


def _kept(make: Callable[[list[nn.Module]], Any]) -> Callable[[Any, list[nn.Module]], None]:
    def fill(self: Any, layers: list[nn.Module]) -> None:
        self.kept = make(layers)

    return fill


def _parameters(self: Any, layers: list[nn.Module]) -> None:
    self.kept = [nn.Parameter(torch.randn(WIDTH)) for _ in range(2)]


def _parameter_dict(self: Any, layers: list[nn.Module]) -> None:
    self.kept = {"a": nn.Parameter(torch.randn(WIDTH)), "b": nn.Parameter(torch.randn(WIDTH), requires_grad=False)}


def _tensor(self: Any, layers: list[nn.Module]) -> None:
    self.kept = torch.randn(WIDTH)


def _tensors(self: Any, layers: list[nn.Module]) -> None:
    self.kept = [torch.randn(WIDTH) for _ in range(3)]
    self.table = {"a": torch.randn(WIDTH), 3: torch.randn(WIDTH)}


def _leaf(self: Any, layers: list[nn.Module]) -> None:
    self.kept = torch.randn(WIDTH, requires_grad=True)


def _expanded(self: Any, layers: list[nn.Module]) -> None:
    self.kept = nn.Parameter(torch.randn(WIDTH, 1).expand(WIDTH, WIDTH))


def _transposed(self: Any, layers: list[nn.Module]) -> None:
    self.kept = nn.Parameter(torch.randn(WIDTH, WIDTH).t())


def _overlapping(self: Any, layers: list[nn.Module]) -> None:
    table = torch.randn(2 * WIDTH)
    self.register_buffer("kept", table[:WIDTH])
    self.register_buffer("other", table[2 : 2 + WIDTH])


def _norm(self: Any, layers: list[nn.Module]) -> None:
    self.kept = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))


def _wrapped(self: Any, layers: list[nn.Module]) -> None:
    self.kept = [nn.DataParallel(layers[0])]


def _awkward(self: Any, layers: list[nn.Module]) -> None:
    """What ``copy.deepcopy`` refuses or loses."""
    self.kept = nn.Sequential(*layers)
    self.lock = threading.Lock()
    self.average = (
        self.kept[0].weight.sum() if hasattr(self.kept[0], "weight") else torch.zeros(()).requires_grad_() + 1
    )
    self.parent = weakref.ref(self)
    self.seen: list[Any] = []
    self.kept.register_forward_hook(lambda module, given, output, seen=self.seen: seen.append(len(seen)))


FORMS: dict[str, tuple[Callable[[Any, list[nn.Module]], None], Callable[[Any, torch.Tensor], torch.Tensor]]] = {
    "list": (_kept(list), lambda self, x: _in_a_row(self.kept, x)),
    "tuple": (_kept(tuple), lambda self, x: _in_a_row(self.kept, x)),
    "dict": (_kept(lambda given: {f"k{i}": m for i, m in enumerate(given)}), lambda self, x: _in_a_row(self.kept.values(), x)),
    "dict, get": (_kept(lambda given: {"a": given[0]}), lambda self, x: self.kept.get("a")(x)),
    "list, index": (_kept(list), lambda self, x: x * self.kept.index(self.kept[-1]) + self.kept[0](x)),
    "list, slice": (_kept(lambda given: [nn.ReLU(), *given]), lambda self, x: _in_a_row(self.kept[1:], x)),
    "list, plus": (_kept(list), _plus),
    "list, copy": (_kept(list), lambda self, x: _in_a_row(self.kept.copy(), x)),
    "list, bound anew": (_kept(list), lambda self, x: _in_a_row(setattr(self, "kept", list(self.kept)) or self.kept, x)),
    "twice": (_kept(lambda given: [given[0]] * 2), lambda self, x: _in_a_row(self.kept, x)),
    "nested": (_kept(lambda given: [given[:1], tuple(given[1:])]), lambda self, x: _in_a_row([m for p in self.kept for m in p], x)),
    "dict of lists": (_kept(lambda given: {"a": given}), lambda self, x: _in_a_row(self.kept["a"], x)),
    "list of dicts": (_kept(lambda given: [{"a": m} for m in given]), lambda self, x: _in_a_row([p["a"] for p in self.kept], x)),
    "numbers for keys": (_kept(lambda given: dict(enumerate(given))), lambda self, x: _in_a_row(self.kept.values(), x)),
    "keys with dots": (_kept(lambda given: {"a.b": given[0], "keys": given[-1]}), lambda self, x: self.kept["keys"](self.kept["a.b"](x))),
    "mixed": (_kept(lambda given: [2.0, *given]), lambda self, x: _in_a_row(self.kept[1:], x) * self.kept[0]),
    "set": (_kept(lambda given: {given[0]}), lambda self, x: _in_a_row(self.kept, x)),
    "object": (_kept(lambda given: Record(given[0])), lambda self, x: self.kept.layer(x)),
    "namespace": (_kept(lambda given: types.SimpleNamespace(a=given)), lambda self, x: _in_a_row(self.kept.a, x)),
    "partial": (_kept(lambda given: functools.partial(_in_a_row, given)), lambda self, x: self.kept(x)),
    "closure": (_kept(lambda given: _closure(given[0])), lambda self, x: self.kept(x)),
    "bound method": (_kept(lambda given: [given[0].forward]), lambda self, x: self.kept[0](x)),
    "past setattr": (_past_setattr, lambda self, x: self.kept(x)),
    "parameters": (_parameters, lambda self, x: x * self.kept[0] + self.kept[1]),
    "dict of parameters": (_parameter_dict, lambda self, x: x * self.kept["a"] + self.kept["b"]),
    "tensor": (_tensor, lambda self, x: x + self.kept),
    "tensors": (_tensors, lambda self, x: sum(self.kept[1:], x * self.kept[-3]) + self.table[3] + self.table.get("a")),
    "tensors, index": (_tensors, lambda self, x: x + self.kept.copy()[1] + sum(self.table.values())),
    "tensor with gradient": (_leaf, lambda self, x: x * self.kept),
    "expanded": (_expanded, lambda self, x: x @ self.kept),
    "transposed": (_transposed, lambda self, x: x @ self.kept),
    "overlapping": (_overlapping, lambda self, x: x * self.kept + self.other),
    "weight norm": (_norm, lambda self, x: self.kept(x)),
    "wrapped": (_wrapped, lambda self, x: self.kept[0](x)),
    "awkward": (_awkward, lambda self, x: self.kept(x) + self.average),
    "registered": (lambda self, given: setattr(self, "kept", nn.ModuleList(given)), lambda self, x: _in_a_row(self.kept, x)),
}  # fmt: skip
"""How an attribute keeps layers or tensors, and how ``forward`` goes about them."""


class Part(nn.Module):
    """Keeps something in one of the forms, and maybe further parts in a plain list."""

    def __init__(self, form: str, layers: list[nn.Module], parts: list[nn.Module]) -> None:
        super().__init__()
        self.form = form
        self.parts = parts
        FORMS[form][0](self, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _in_a_row(self.parts, FORMS[self.form][1](self, x))


class Built(NamedTuple):
    """A model and the forms in it."""

    model: nn.Module
    forms: tuple[str, ...]


LAYERS: list[Callable[[], nn.Module]] = [
    lambda: nn.Linear(WIDTH, WIDTH),
    nn.Dropout,
    nn.Tanh,
    lambda: nn.BatchNorm1d(WIDTH),
    lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.2)),
    lambda: nn.PReLU(WIDTH),
]


@st.composite
def built(draw: st.DrawFn) -> Built:
    """Trees of parts, up to three deep, in training or evaluation mode."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    forms: list[str] = []

    def part(depth: int) -> nn.Module:
        form = draw(st.sampled_from(sorted(FORMS)))
        forms.append(form)
        layers = [draw(st.sampled_from(LAYERS))() for _ in range(draw(st.integers(1, 3)))]
        parts = [part(depth - 1) for _ in range(draw(st.integers(0, 2)))] if depth else []
        return Part(form, layers, parts)

    model = part(draw(st.integers(0, 2)))
    return Built(model.train(draw(st.booleans())), tuple(forms))


def subject_of(model: nn.Module) -> Subject:
    return Subject(model, None, Path.cwd(), Destination())


def hidden_in(model: nn.Module) -> list[str]:
    """Where modules and parameters are that PyTorch does not see."""
    return [held.places[0] for held in unregistered_state(subject_of(model)) if held.kind in ("module", "parameter")]


def modules_of(model: nn.Module) -> list[str]:
    """The types of all modules, hidden ones too; what stands around a module does not count."""
    found = by_path(subject_of(model)).values()
    return sorted(type(one).__name__.removeprefix("Parametrized") for one in found if type(one).__name__ not in _AROUND)


_AROUND = {"DataParallel", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Registered"}
_AROUND |= {"ParametrizationList", "_WeightNorm", "BufferList", "BufferDict"}


def in_evaluation(model: nn.Module) -> None:
    """Put all of a model into evaluation mode, and what it hides."""
    for module in by_path(subject_of(model)).values():
        module.training = False
