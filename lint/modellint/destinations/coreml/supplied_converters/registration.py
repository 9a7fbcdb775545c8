"""Registry of the supplied converters, and the scope in which coremltools has them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from modellint.data.device_results import DEPARTURES
from modellint.destinations.comparison.process_state_lock import TURN
from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.batch_norm_fusion import exact_scales
from modellint.destinations.coreml.private.installed_capabilities import facts
from modellint.destinations.coreml.private.reduce_mean_fusion import exact_means
from modellint.destinations.coreml.supplied_converters import device_fault_pass
from modellint.destinations.coreml.supplied_converters.arguments import Call, Unfit, bound
from modellint.destinations.coreml.supplied_converters.constant_folding import folded
from modellint.destinations.coreml.supplied_converters.shapes import empty_broadcast_pass, high_rank_pass
from modellint.destinations.decompositions.table import BIT_EQUAL, decompositions

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.own_coverage import Unless
    from modellint.settings import Destination

_WRONG_PASS = "common::fuse_stack_split"
"""Of coremltools before 9.1. It takes whatever reads a part of what was stacked for a squeeze: it falls over most, and drops a norm
over that axis."""
Kind = Literal["supplied", "mended"]
Form = Literal["torch", "mil", "call"]
Make = Callable[..., Any]


class Used(NamedTuple):
    """A supplied converter that took part in a conversion."""

    operator: str
    """As in ``aten::addcmul``."""
    kind: Kind
    """``supplied`` where coremltools has none, ``mended`` where it has one that is wrong or refuses."""
    exactness: str
    """``bit-equal``, or ``≤ N ulps`` of float32."""
    nodes: tuple[str, ...]
    """The nodes of the captured program that it converted."""

    @property
    def places(self) -> int:
        """How many nodes it converted."""
        return len(self.nodes)


@dataclass(slots=True)
class Supplied:
    """Record of the supplied converters that took part so far."""

    _nodes: dict[tuple[str, Kind, str], list[str]] = field(default_factory=dict)
    pipeline: Any = None
    """coremltools' passes, with ours among them."""

    def note(self, operator: str, kind: Kind, exactness: str, node: str) -> None:
        """Remember that a converter converted a node."""
        self._nodes.setdefault((operator, kind, exactness), []).append(node)

    def forget(self) -> None:
        """Begin anew: another conversion follows."""
        self._nodes.clear()

    @property
    def used(self) -> list[Used]:
        """The converters that took part, in the order of their first use."""
        return [Used(*which, tuple(nodes)) for which, nodes in self._nodes.items()]


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter of ours. It may leave a node to coremltools' own by giving ``NotImplemented``."""

    operator: str
    names: tuple[str, ...]
    """Under which coremltools looks for it."""
    exactness: str
    make: Make
    form: Form
    """``torch``: ``make`` is in terms of PyTorch; ``mil``: it builds MIL operations; ``call``: it is given the node itself."""
    own: bool = False
    """Whether it is PyTorch's own decomposition."""
    rescue: bool = False
    """Whether it only takes the nodes that coremltools' own converter refuses."""
    unless: Unless | None = None
    """Which arguments are left to coremltools' own."""


TABLE: dict[str, list[Converter]] = {}
"""Our converters by the name under which coremltools looks for them; the first one that fits a node's arguments converts it."""


def builds(operator: str, *overloads: str, exactness: str = BIT_EQUAL) -> Callable[[Make], Make]:
    """Supply a converter that makes MIL operations of variables; ``overloads`` are names beside the operator's own."""
    return _adds(operator, overloads, exactness, "mil")


def adapts(operator: str, *overloads: str, exactness: str = BIT_EQUAL) -> Callable[[Make], Make]:
    """Supply a converter that hands a node on to one of coremltools' own, changed."""
    return _adds(operator, overloads, exactness, "call")


def rescues(operator: str, name: str, exactness: str = BIT_EQUAL) -> Callable[[Make], Make]:
    """As ``adapts``, of the nodes alone that coremltools' own converter, by this name, refuses."""

    def add(make: Make) -> Make:
        TABLE.setdefault(name, []).append(Converter(f"aten::{operator}", (name,), exactness, make, "call", rescue=True))
        return make

    return add


def takes_over(exactness: str, operators: str, rescue: bool = False) -> None:
    """Supply converters that are PyTorch's own decompositions of operators, with all of their overloads.

    With ``rescue`` they only take what coremltools' own converters refuse.
    """
    for operator in operators.split():
        packet = getattr(torch.ops.aten, operator)
        for overload in packet.overloads():
            make = getattr(packet, overload)
            if "out" not in overload and "dimname" not in overload:
                converter = Converter(
                    f"aten::{operator}",
                    (operator, operator_tables.looked_up(make)),
                    exactness,
                    make,
                    "torch",
                    own=True,
                    rescue=rescue,
                )
                for name in dict.fromkeys(converter.names):
                    TABLE.setdefault(name, []).append(converter)


def _adds(operator: str, overloads: Sequence[str], exactness: str, form: Form) -> Callable[[Make], Make]:
    names = dict.fromkeys((operator, *(operator + name if name[:1] == "." else name for name in overloads)))

    def add(make: Make) -> Make:
        named = operator if "::" in operator else f"aten::{operator}"
        converter = Converter(named, tuple(names), exactness, make, form)
        for name in names:
            TABLE.setdefault(name, []).append(converter)
        return make

    return add


@cache
def table() -> dict[str, list[Converter]]:
    """All supplied converters, by name."""
    from modellint.destinations.coreml.supplied_converters.own_coverage import own

    for operator, names, function, exactness in decompositions():
        for name in names:
            converter = Converter(operator, names, exactness, function, "torch", unless=own(function))
            TABLE.setdefault(name, []).append(converter)
    package = importlib.import_module(__name__.rpartition(".")[0])
    modules = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    # What is written for one operator comes before what is made for many.
    for name in sorted(
        modules, key=lambda name: (name.rpartition(".")[2] in ("defaults", "composite_operators"), name)
    ):
        importlib.import_module(name)
    return TABLE


@cache
def decomposed() -> frozenset[str]:
    """Names whose only converters are PyTorch's own decompositions."""
    return frozenset(name for name, converters in table().items() if all(converter.own for converter in converters))


@contextmanager
def supplied(destination: Destination) -> Iterator[Supplied]:
    """The scope in which coremltools has our converters and passes; one thread at a time.

    A converter is not supplied where the installed coremltools has its own that was measured to be right. Its tables are the same
    afterwards, order included, also when an exception passes.
    """
    with TURN, operator_tables.tables_kept(), exact_means(), exact_scales():
        parts, retired = Supplied(), facts().retired
        for name, converters in table().items():
            if name in retired and operator_tables.converter_of(name) is not None:
                continue
            operator_tables.register(name, _as_registered(name, converters, parts))
        operator_tables.narrow_integers_as_signed()
        empty_broadcast_pass.register(lambda: parts.note("broadcast of an empty tensor", "mended", BIT_EQUAL, ""))
        parts.pipeline = high_rank_pass.pipeline(
            lambda: parts.note("more than five axes", "supplied", BIT_EQUAL, ""), empty_broadcast_pass.NAME
        )
        device_fault_pass.register(lambda name: parts.note(DEPARTURES[name].around, "mended", BIT_EQUAL, ""))
        # Behind all others: what it puts in is of the types that the program has then, and nothing takes it out.
        parts.pipeline.append_pass(device_fault_pass.NAME)
        if facts().fuses_any_reader and _WRONG_PASS in parts.pipeline.passes:
            parts.pipeline.remove_passes({_WRONG_PASS})
        yield parts


def _as_registered(name: str, converters: Sequence[Converter], parts: Supplied) -> operator_tables.Convert:
    original = operator_tables.converter_of(name)
    kind: Kind = "supplied" if original is None else "mended"

    def convert(context: Any, node: Any) -> None:
        args, kwargs = operator_tables.bindings(context, node)
        call = Call(context, node, args, kwargs)
        refusal: Exception | None = None
        if original is not None and all(converter.rescue for converter in converters):
            refusal = operator_tables.refused(original, context, node)
            if refusal is None:
                return
        reason: Exception | None = None
        # Overloads of one operator differ by whether they take a tensor or a number.
        for converter, strict in [(converter, strict) for strict in (True, False) for converter in converters]:
            try:
                result = _made(converter, call, strict)
            except (Unfit, NotImplementedError) as error:
                reason = reason or error
                continue
            if result is not NotImplemented:
                _put(call, result)
                parts.note(converter.operator, kind, converter.exactness, node.name)
                return
        if original is None and reason is None and (whole := _named_otherwise(name, converters)) is not None:
            whole(context, node)
            return
        if original is None or refusal is not None:
            result = folded(converters[0].operator, call)
            if result is not NotImplemented:
                _put(call, result)
                parts.note(converters[0].operator, kind, BIT_EQUAL, node.name)
                return
        if refusal is not None:
            raise refusal
        if original is None:
            raise NotImplementedError(f"{name}: {reason or 'not converted with these arguments'}")
        original(context, node)

    return convert


def _named_otherwise(name: str, converters: Sequence[Converter]) -> operator_tables.Convert | None:
    """Coremltools' own converter of an operator to which ours leave this use, where it is known there by another name."""
    other = converters[0].operator.rpartition("::")[2]
    return None if other == name else operator_tables.converter_of(other)


def _made(converter: Converter, call: Call, strict: bool) -> Any:
    with torch.no_grad():
        if converter.form == "call":
            return converter.make(call)
        arguments = bound(converter.make, call.args, call.kwargs, strict)
        if converter.unless is not None and converter.unless(arguments):
            return NotImplemented
        if converter.form == "mil":
            return converter.make(**arguments)
        from modellint.destinations.coreml.supplied_converters.torch_function_inlining import inlined

        return inlined(converter.make, arguments, call, decomposed())


def _put(call: Call, result: Any) -> None:
    """Bind the results to the names that the captured program has for them."""
    context, node = call.context, call.node

    def put(name: str, value: Any) -> None:
        named = value if operator_tables.is_complex(value) else operator_tables.Builder.identity(x=value, name=name)
        context.add(named, torch_name=name, override=True)

    if isinstance(result, (list, tuple)):
        if len(node.outputs) == len(result) > 1:
            for name, part in zip(node.outputs, result, strict=True):
                put(name, part)
        else:
            context.add(tuple(result), torch_name=node.name, override=True)
    else:
        put(node.name, result)
