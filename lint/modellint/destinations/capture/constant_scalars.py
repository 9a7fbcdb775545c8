"""Constant scalars: truth values, numbers and sizes that code takes out of tensors which no input reaches, the same in every run.

`torch.export` runs a model on tensors without values, and refuses a branch on the value of a buffer. A program holds buffers as
constants: so the branch is the one that a run takes. Sizes are such scalars too, whether code asks for them (`int(grid[0])`), hands
a tensor where a number is wanted (`interpolate(x, size=(grid[0], grid[1]))`), or an operator makes as many elements as values tell
(`repeat_interleave`, a choice by a mask).
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    free_unbacked_symbols,
)
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from modellint.destinations.capture import eager_path, found_rows, in_place_writes, torch_export
from modellint.live.capture.data_dependence import tells_shape_only
from modellint.live.capture.jit_trace import TAKING

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs

_UNKNOWN = (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    DataDependentOutputException,
    DynamicOutputShapeException,
)
NOTE = "what the model asks of its own weights and buffers is answered once"
EXAMPLE_NOTE = "a branch or a number that the values of inputs lead to is the one of the example (FLW001, FLW002)"
_TAKING = {
    getattr(torch.Tensor, name) for name in ("__bool__", "__int__", "__float__", "__index__", "item", "is_nonzero")
} | {torch.is_nonzero}
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_BY_MASK = {torch.ops.aten.index.Tensor, torch.ops.aten.masked_select.default}
"""Operators whose result has a size that the values of their first operand do not tell."""
_READING = {torch.tensor, torch.as_tensor, torch.asarray}
_ASSERTING = {
    getattr(torch, name).__code__
    for name in ("_check", "_check_with", "_check_tensor_all", "_check_tensor_all_with")
    if hasattr(torch, name)
}
_TORCH = os.path.dirname(torch.__file__) + os.sep  # noqa: PTH120


class _Visit(NamedTuple):
    """One of the times that a line takes a scalar."""

    path: str
    row: int
    function: str
    number: int


class _Result(NamedTuple):
    """What a call gives: a number of a tensor of this shape, or tensors whose shape depends on values."""

    value: Any
    shape: torch.Size | None = None
    is_written: bool = False
    """Whether the code writes to them: a program has no constant that is written to."""


class _Operands(NamedTuple):
    """What a call is given in place of some operands, by their places: the numbers of tensors, the positions of a mask's truths."""

    instead: dict[int, Any]


class _Provenance(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that follows which tensors the values of inputs, or random numbers, reach."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # A weak reference holds an address: no other storage has it later.
        self._reached = {reference.cdata: reference for reference in map(_storage, tensors) if reference is not None}
        self.has_left = False
        """Whether such a value, or a size that depends on one, was handed to Python, which nothing follows."""
        self.has_left_as_number = False
        """Whether that was more than truth values: numbers and sizes."""
        self.taken: list[tuple[torch.Tensor, Any]] = []
        """Constants of one element that an operator took as numbers, and these, since somebody emptied this."""
        self.is_of_values = False
        """Whether an operator gave a tensor whose shape depends on values, since somebody said that none has."""

    def reaches(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor may hold such a value."""
        reference = _storage(tensor)
        return reference is None or reference.cdata in self._reached

    def leaves(self, tensors: Sequence[torch.Tensor]) -> None:
        """Take it that Python is handed the values of these tensors, or, without any, a size that depends on values."""
        self.has_left = True
        self.has_left_as_number |= not tensors or any(tensor.dtype != torch.bool for tensor in tensors)

    def hands_on(self, tensors: list[torch.Tensor], result: torch.Tensor) -> None:
        """Take it that the values of these tensors are those of the result."""
        reference = _storage(result)
        if reference is not None and any(map(self.reaches, tensors)):
            self._reached[reference.cdata] = reference

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        taken = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        is_random = torch.Tag.nondeterministic_seeded in getattr(function, "tags", ())
        name = getattr(function, "_schema", None)
        hands_on = name is None or not tells_shape_only(name.name)
        is_number = function is torch.ops.aten._local_scalar_dense.default
        is_sized_by_values = torch.Tag.dynamic_output_shape in getattr(function, "tags", ())
        deciding = taken
        if function in _BY_MASK:
            # Positions give as many rows as there are of them.
            deciding = [leaf for leaf in taken[1:] if leaf.dtype in (torch.bool, torch.uint8)]
            is_sized_by_values &= bool(deciding)
        if is_random or (hands_on and any(map(self.reaches, taken))):
            if is_number or (is_sized_by_values and any(map(self.reaches, deciding))):
                self.leaves(taken if is_number else ())
            written = taken if name is None else _written(name, args, kwargs)
            for leaf in (*pytree.tree_leaves(result), *written):
                reference = _storage(leaf) if isinstance(leaf, torch.Tensor) else None
                if reference is not None:
                    self._reached[reference.cdata] = reference
        elif is_number:
            self.taken.append((taken[0], result))
        self.is_of_values |= is_sized_by_values
        return result


def _written(schema: torch.FunctionSchema, args: Any, kwargs: Any) -> list[Any]:
    """The operands, flat, that a function with this schema writes to."""
    if not schema.is_mutable:
        return []
    named = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | kwargs
    return pytree.tree_leaves(
        [
            named.get(argument.name)
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
    )


def _storage(tensor: torch.Tensor) -> StorageWeakRef | None:
    """The storage of a tensor; None of one that has none."""
    try:
        return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
    except (NotImplementedError, RuntimeError):
        return None


class _Visits(TorchFunctionMode):
    """Mode that counts, by line, the times that a function of PyTorch is called."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int, str], int] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__"):
            return function(*args, **kwargs)
        path, row = _line(sys._getframe(1))
        return self.called(self._next(path, row, name), function, args, kwargs)

    def _next(self, path: str, row: int, function: str) -> _Visit:
        key = path, row, function
        self._seen[key] = self._seen.get(key, 0) + 1
        return _Visit(*key, self._seen[key])

    def called(self, visit: _Visit, function: Any, args: Any, kwargs: Any) -> Any:
        """What the code is given."""
        raise NotImplementedError


def _line(frame: FrameType) -> tuple[str, int]:
    """The line that a call comes from, beyond PyTorch's own and those of here: a capture has modes between."""
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith((_TORCH, __file__)):
        outer = outer.f_back
    found = outer or frame
    return found.f_code.co_filename, found.f_lineno


def _is_asserted(frame: FrameType) -> bool:
    """Whether PyTorch asks for a value to hold an assertion against it."""
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith((_TORCH, __file__)):
        if outer.f_code in _ASSERTING:
            return True
        outer = outer.f_back
    return False


class _Looking(_Visits):
    """Mode that keeps what a run's calls take out of constants."""

    def __init__(self, provenance: _Provenance, scalars_only: bool = False) -> None:
        super().__init__()
        self._provenance = provenance
        self._scalars_only = scalars_only
        self.constants: dict[_Visit, _Result | _Operands] = {}
        self._given: list[tuple[_Visit, torch.Tensor, int | None]] = []

    def end(self) -> None:
        """Mark the tensors that the run wrote to, after it got them."""
        for visit, tensor, version in self._given:
            known = self.constants[visit]
            if isinstance(known, _Result) and (version is None or tensor._version != version):
                self.constants[visit] = known._replace(is_written=True)

    def called(self, visit: _Visit, function: Any, args: Any, kwargs: Any) -> Any:
        provenance = self._provenance
        tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        had_left = provenance.has_left, provenance.has_left_as_number
        if visit.function in TAKING and any(map(provenance.reaches, tensors)):
            provenance.leaves(tensors)
        provenance.taken.clear()
        provenance.is_of_values = False
        value = function(*args, **kwargs)
        if function in _READING and tensors:
            # Memory is read, and no operator is called.
            provenance.is_of_values = True
            provenance.hands_on(tensors, value)
        if visit.function == "__format__" or _is_asserted(sys._getframe(1)):
            # What a message says of an input is for people, and a run goes on alike behind every assertion that holds.
            provenance.has_left, provenance.has_left_as_number = had_left
        # What Python does with a value of an input is not followed: nothing is a constant behind that.
        if provenance.has_left:
            return value
        if function is torch.Tensor.tolist:
            # The tensors of an export ask each of their elements instead.
            for element in tensors[0].flatten().tolist():
                at = self._next(visit.path, visit.row, "item")
                self.constants[at] = _Result(element, torch.Size())
        elif function in _TAKING:
            self.constants[visit] = _Result(value, tensors[0].shape)
        elif self._scalars_only:
            return value
        elif provenance.is_of_values and not any(map(provenance.reaches, tensors)):
            self.constants[visit] = _Result(pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, value))
            given = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            # Tensors of inference mode count no writes.
            self._given.extend((visit, each, None if each.is_inference() else each._version) for each in given)
        elif instead := {**self._masks(function, args, kwargs), **_numbers((args, kwargs), provenance.taken)}:
            self.constants[visit] = _Operands(instead)
        return value

    def _masks(self, function: Any, args: Any, kwargs: Any) -> dict[int, torch.Tensor]:
        """Constant masks of one dimension by which rows are chosen, by their places, each as the rows' numbers."""
        if function not in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            return {}
        return {
            at: leaf.nonzero()[:, 0]
            for at, leaf in enumerate(_leaves((args, kwargs)))
            if at and isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bool and leaf.dim() == 1
            if not self._provenance.reaches(leaf)
        }


def _numbers(operands: Any, taken: list[tuple[torch.Tensor, Any]]) -> dict[int, Any]:
    """The operands, by their places, that were taken as numbers, and these."""
    numbers = {id(tensor): number for tensor, number in taken}
    return {at: numbers[id(leaf)] for at, leaf in enumerate(_leaves(operands)) if id(leaf) in numbers}


def _leaves(operands: Any) -> Iterator[Any]:
    """What stands in operands and in their tuples, lists, dicts and slices, in order."""
    match operands:
        case tuple() | list():
            for operand in operands:
                yield from _leaves(operand)
        case dict():
            yield from _leaves([*operands.values()])
        case slice():
            yield from _leaves((operands.start, operands.stop, operands.step))
        case _:
            yield operands


def _replaced(operands: Any, instead: dict[int, Any], places: Iterator[int]) -> Any:
    """Operands in which something else stands at those places."""

    def replaced(operand: Any) -> Any:
        return _replaced(operand, instead, places)

    match operands:
        case tuple() | list():
            parts = [replaced(operand) for operand in operands]
            return type(operands)(*parts) if hasattr(operands, "_fields") else type(operands)(parts)
        case dict():
            return {key: replaced(operand) for key, operand in operands.items()}
        case slice():
            return slice(*map(replaced, (operands.start, operands.stop, operands.step)))
        case _:
            return instead.get(next(places), operands)


class _Answering(_Visits):
    """Mode in which calls are given what those of a run took out of constants."""

    def __init__(self, constants: dict[_Visit, _Result | _Operands]) -> None:
        super().__init__()
        self._constants = constants

    def called(self, visit: _Visit, function: Any, args: Any, kwargs: Any) -> Any:
        match self._constants.get(visit):
            case _Result(value, shape, is_written) if shape is None or args[0].shape == shape:
                return pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, value) if is_written else value
            case _Operands(instead):
                args, kwargs = _replaced((args, kwargs), instead, count())
        if function is torch.Tensor.tolist:
            # Of a constant that an answer gave: the run counted its elements.
            for _ in range(args[0].numel()):
                self._next(visit.path, visit.row, "item")
        return function(*args, **kwargs)


@contextmanager
def answered(model: nn.Module, inputs: Inputs, of_inputs: bool = False) -> Iterator[bool]:
    """Scope in which code that takes a scalar out of what no input reaches is given the one of a run; whether there is any.

    ``of_inputs``: also out of what inputs reach, as a trace does; no tensor is a constant then that is not a scalar.
    None is given where the run writes a parameter or buffer: what is read of these then is another value in the next run.
    Raises what the model raises.
    """
    given = [leaf for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(leaf, torch.Tensor)]
    state = [*model.parameters(), *model.buffers()]
    before = [tensor._version for tensor in state]
    followed = [] if of_inputs else given
    with torch.no_grad(), _Provenance(followed) as provenance, _Looking(provenance, of_inputs) as looking:
        model(*inputs.args, **inputs.kwargs)
        looking.end()
    if not looking.constants or [tensor._version for tensor in state] != before:
        yield False
        return
    forward, own = model.forward, vars(model).get("forward")

    @wraps(forward)
    def answering(*args: Any, **kwargs: Any) -> Any:
        # Entered in here, as a capture's own modes, which answer `tolist` themselves, are asked before those around them.
        with _Answering(looking.constants):
            return forward(*args, **kwargs)

    # That of a method which stands in the class's place holds the model itself, too.
    answering.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    vars(model)["forward"] = answering
    try:
        yield True
    finally:
        if own is None:
            del vars(model)["forward"]
        else:
            vars(model)["forward"] = own


def inputs_taken(model: nn.Module, inputs: Inputs) -> tuple[tuple[str, ...], ...]:
    """The inputs of whole numbers and truth values, by name, that hand Python what it branches by, or sizes: sets, the smaller first.

    First those that hand it numbers and sizes, then those too that only a branch asks. No set holds all inputs; none where a run ends
    in an exception.
    """
    names = [*inspect.signature(model.forward).parameters]
    named = dict(zip(names, inputs.args, strict=False)) | dict(inputs.kwargs)
    taken, as_number = [], []
    for name, value in named.items():
        if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
            continue
        try:
            with torch.no_grad(), _Provenance([value]) as provenance, _Looking(provenance):
                model(*inputs.args, **inputs.kwargs)
        except Exception:
            return ()
        if provenance.has_left:
            taken.append(name)
        if provenance.has_left_as_number:
            as_number.append(name)
    sets = (tuple(as_number), tuple(taken))
    return tuple(dict.fromkeys(names for names in sets if names and len(names) < len(named)))


def exported(model: nn.Module, inputs: Inputs, as_example: bool = False) -> tuple[Any, tuple[str, ...]]:
    """An export, and what was done for it: where it stops at a branch on a scalar, those of constants are answered, or a mask finds rows.

    ``as_example``: where that is not enough, those of inputs too, as in the example. What comes of it has to be compared on others.
    They may depend on a size: none is answered where a size is flexible. A model that asks whether it is compiled, and cannot be
    captured on the path that it takes then, is captured on the other one; one that asks for exact types, by Dynamo. Raises whatever
    ``torch.export`` raises.
    """
    program, notes = _captured(model, inputs, as_example)
    in_place_writes.to_new_values(program)
    return program, notes


def _captured(model: nn.Module, inputs: Inputs, as_example: bool) -> tuple[Any, tuple[str, ...]]:
    with eager_path.noticed() as queries:
        try:
            return _exported(model, inputs, as_example)
        except Exception as error:
            reason = error
    if queries:
        with eager_path.taken(), suppress(Exception):
            program, notes = _exported(model, inputs, as_example)
            return program, (*notes, eager_path.NOTE)
    if torch_export.asks_for_exact_types(model):
        with suppress(Exception):
            return torch_export.exported(model, inputs, strict=True), ()
    raise reason


def _exported(model: nn.Module, inputs: Inputs, as_example: bool) -> tuple[Any, tuple[str, ...]]:
    try:
        program = torch_export.exported(model, inputs)
    except Exception as error:
        # `torch.tensor` reads memory, which tensors without values lack.
        if inputs.flexible or not (isinstance(error, _UNKNOWN) or "not allocated yet" in str(error)):
            raise
        reason = error
        try:
            with answered(model, inputs) as is_any:
                if is_any:
                    return torch_export.exported(model, inputs), (NOTE,)
        except Exception as left:
            reason = left
        with suppress(Exception), found_rows.FindingSome():
            return torch_export.exported(model, inputs), (found_rows.NOTE,)
        if as_example:
            with answered(model, inputs, of_inputs=True) as is_any, suppress(Exception):
                if is_any:
                    return torch_export.exported(model, inputs), (EXAMPLE_NOTE,)
        raise reason from None
    if not inputs.flexible and asks_for_values(program):
        with suppress(Exception), answered(model, inputs) as is_any:
            if is_any:
                return torch_export.exported(model, inputs), (NOTE,)
    return program, ()


def asks_for_values(program: Any) -> bool:
    """Whether sizes or numbers of an exported program are values of tensors."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    return any(free_unbacked_symbols(value) for value in values if isinstance(value, (torch.Tensor, *_SYMBOLS)))
