"""The table of our converters, and the scope in which coremltools has them."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from modellint.coreml import private_converters as private
from modellint.coreml.converters.arguments import Unfit, bound

if TYPE_CHECKING:
    from modellint.settings import Destination

Kind = Literal["supplied", "mended"]
BIT_EQUAL = "bit-equal"


def within(ulps: int) -> str:
    """The exactness class of a converter whose results are so many units in the last place of float32 off, at most."""
    return f"<= {ulps} ulps"


class Used(NamedTuple):
    """A converter of ours that took part in a conversion."""

    operator: str
    """As in ``aten::addcmul``."""
    kind: Kind
    """``supplied`` where coremltools has none, ``mended`` where it has one that is wrong or refuses."""
    exactness: str
    """``bit-equal``, or ``<= N ulps`` of float32."""
    nodes: tuple[str, ...]
    """The nodes of the captured program that it converted."""

    @property
    def places(self) -> int:
        """How many nodes it converted."""
        return len(self.nodes)


@dataclass(slots=True)
class Supplied:
    """What of ours has taken part so far."""

    _nodes: dict[tuple[str, Kind, str], list[str]] = field(default_factory=dict)

    def note(self, operator: str, kind: Kind, exactness: str, node: str) -> None:
        """Remember that a converter converted a node."""
        self._nodes.setdefault((operator, kind, exactness), []).append(node)

    @property
    def used(self) -> list[Used]:
        """What took part, in the order of its first use."""
        return [Used(*which, tuple(nodes)) for which, nodes in self._nodes.items()]


class Call(NamedTuple):
    """A node to be converted."""

    context: Any
    node: Any
    args: list[Any]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter of ours. It may leave a node to coremltools' own by giving ``NotImplemented``."""

    operator: str
    names: tuple[str, ...]
    """Under which coremltools looks for it."""
    exactness: str
    make: Callable[..., Any]
    expressed: bool
    """Whether ``make`` is in terms of PyTorch; otherwise it builds MIL operations."""


TABLE: dict[str, list[Converter]] = {}
"""Our converters by the name under which coremltools looks for them; the first one that fits a node's arguments converts it."""


def builds(
    operator: str, *overloads: str, exactness: str = BIT_EQUAL
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Supply a converter that makes MIL operations of variables; ``overloads`` are names beside the operator's own."""
    return _adds(operator, overloads, exactness, expressed=False)


def expresses(
    operator: str, *overloads: str, exactness: str = BIT_EQUAL
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Supply a converter by a function of PyTorch that computes the same with operators that have one."""
    return _adds(operator, overloads, exactness, expressed=True)


def _adds(
    operator: str, overloads: Sequence[str], exactness: str, expressed: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(make: Callable[..., Any]) -> Callable[..., Any]:
        names = (operator, *(one if "." not in one[:1] else operator + one for one in overloads))
        converter = Converter(f"aten::{operator}", names, exactness, make, expressed)
        for name in names:
            TABLE.setdefault(name, []).append(converter)
        return make

    return add


@cache
def table() -> dict[str, list[Converter]]:
    """All of our converters, by name."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return TABLE


_LOCK = threading.RLock()


@contextmanager
def supplied(destination: Destination) -> Iterator[Supplied]:
    """Give coremltools our converters and passes, and take them away again; one thread at a time.

    Its tables are the same afterwards, order included, also when an exception passes.
    """
    with _LOCK, private.tables_kept():
        found = Supplied()
        for name, converters in table().items():
            private.register(name, _as_registered(name, converters, found))
        yield found


def _as_registered(name: str, converters: Sequence[Converter], found: Supplied) -> private.Convert:
    original = private.converter_of(name)
    kind: Kind = "supplied" if original is None else "mended"

    def convert(context: Any, node: Any) -> None:
        args, kwargs = private.bindings(context, node)
        call = Call(context, node, args, kwargs)
        said: Exception | None = None
        for one in converters:
            try:
                arguments = bound(one.make, call.args, call.kwargs)
            except Unfit as error:
                said = said or error
                continue
            result = _made(one, call, arguments)
            if result is NotImplemented:
                continue
            _put(call, result)
            found.note(one.operator, kind, one.exactness, node.name)
            return
        if original is None:
            raise NotImplementedError(f"{name}: {said or 'not converted with these arguments'}")
        original(context, node)

    return convert


def _made(one: Converter, call: Call, arguments: dict[str, Any]) -> Any:
    with torch.no_grad():
        if one.expressed:
            from modellint.coreml.converters.inlining import inlined

            return inlined(one.make, arguments, call)
        return one.make(**arguments)


def _put(call: Call, result: Any) -> None:
    """Give the results the names that the captured program has for them."""
    context, node = call.context, call.node
    if isinstance(result, (list, tuple)):
        if len(node.outputs) == len(result) > 1:
            for name, part in zip(node.outputs, result, strict=True):
                context.add(private.Builder.identity(x=part, name=name), torch_name=name)
        else:
            context.add(tuple(result), torch_name=node.name)
    else:
        context.add(private.Builder.identity(x=result, name=node.name), torch_name=node.name)
