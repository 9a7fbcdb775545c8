"""What is known of a use of PyTorch's API that coremltools refuses for its arguments, and conditions on their values."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from modellint_rules.operators.upstream_issues import address

ABSENT = object()
"""Stands for the value of an argument that has to be given."""


class Literal(NamedTuple):
    """An argument, and which of its values are refused."""

    at: int
    keyword: str
    is_refused: Callable[[object], bool]
    default: object = ABSENT
    """What counts where the argument is not given; without one it must be given."""
    form: str = "literal"
    """``literal``: the call spells its value out; ``name``: it is a name of torch's (``torch.int32``), and that is what counts;
    ``tensor``: it is a tensor, and nothing else counts; ``rank``: it is a tensor, and its rank counts; ``floats``: it is a tensor
    of whole numbers that coremltools holds as floats; ``real``: it certainly is a tensor of floats; ``counted``: it is a
    tensor of floats that coremltools holds as integers; ``cut``: it is a tensor of integers that certainly was one of fractions,
    which a cast took; ``single``: it is not known to be of another type than single precision."""


class Refusal(NamedTuple):
    """A use that does not convert."""

    names: tuple[str, ...]
    literals: tuple[Literal, ...]
    """All of them must be refused."""
    shown: str
    """The use as people write it."""
    kind: str
    """The operator that is captured, with ``{rank}`` for the number in the API's name; empty where the routes differ."""
    why: str
    trace: bool
    export: bool
    """Whether it converts from `torch.jit.trace`, and from `torch.export`, with core ATen decompositions if need be."""
    example: tuple[str, str, str]
    """The shapes of the inputs, the expression, and the layer that it calls."""
    issue: str | None = None
    """Of coremltools by its number, of others as they are cited."""
    lifted: str | None = None
    """The version that takes it."""
    words: frozenset[str] = frozenset()
    """One of them stands wherever this use does."""
    distinct: bool = True
    """Whether the words are seldom enough to look for them alone."""
    ios: int | None = None
    """The iOS for which it converts."""
    of_input: bool = False
    """Whether it is refused only where its tensor hangs on what the model is given."""
    instead: str | None = None
    """What to write in its place, as a sentence."""
    rounds: bool = False
    """Whether nothing but a rounding is wrong about what it converts to."""
    core_only: bool = False
    """Whether it converts with core ATen decompositions (``run_decompositions()``) only, and not with none (``run_decompositions({})``)."""

    @property
    def kinds(self) -> frozenset[str]:
        """The operators that are captured, of all its names."""
        return frozenset(self.kind.format(rank=name[-2:-1]) for name in self.names) - {""}

    @property
    def is_counted(self) -> bool:
        """Whether it is refused for floats that coremltools holds as integers."""
        return any(literal.form == "counted" for literal in self.literals)

    @property
    def url(self) -> str | None:
        """The address of its issue."""
        return None if self.issue is None else address(self.issue)

    @property
    def advice(self) -> str | None:
        """What else would convert."""
        if self.ios is not None:
            return f"It converts for iOS {self.ios} and newer"
        if self.lifted is not None:
            return (
                "The next coremltools takes it"
                if self.lifted.startswith("main")
                else f"coremltools {self.lifted} takes it"
            )
        return self.instead


def read(entry: Mapping[str, Any]) -> Refusal:
    """A use from its fields in ``refusals.json``."""
    fields = dict(entry)
    fields["literals"] = tuple(
        Literal(**{**literal, "is_refused": _condition(literal["is_refused"])}) for literal in entry.get("literals", ())
    )
    fields |= {name: tuple(entry[name]) for name in ("names", "example")}
    fields["words"] = frozenset(entry.get("words", ()))
    return Refusal(**fields)


def _condition(text: str | Mapping[str, Sequence[object]]) -> Callable[[object], bool]:
    if isinstance(text, str):
        return _CONDITIONS[text]
    ((name, values),) = text.items()
    return _OF_VALUES[name](*values)


def one_of(*values: object) -> Callable[[object], bool]:
    """Whether a value is one of these."""
    return lambda value: any(type(value) is type(allowed) and value == allowed for allowed in values)


def other_than(*values: object) -> Callable[[object], bool]:
    """Whether a value is none of these, nor a tuple of nothing else."""
    return lambda value: (
        value not in values and not (isinstance(value, tuple) and all(part in values for part in value))
    )


def nothing_but(*values: object) -> Callable[[object], bool]:
    """Whether a value is one of these, or a tuple of nothing else."""
    others = other_than(*values)
    return lambda value: not others(value)


def is_given(value: object) -> bool:
    """Whether there is a value at all."""
    return True


def is_before_last(axis: object) -> bool:
    """Whether an axis is counted from the end, and not the last."""
    return type(axis) is int and axis < -1


def is_whole(value: object) -> bool:
    """Whether a number is written without a point."""
    return type(value) is int


def is_whole_factor(value: object) -> bool:
    """Whether a factor is written without a point, and changes something."""
    return type(value) is int and value != 1


def is_uneven(factor: object) -> bool:
    """Whether a number that sizes are multiplied by is neither whole nor a half."""
    return isinstance(factor, float) and factor > 0 and factor != 0.5 and not factor.is_integer()


def is_below_float16(number: object) -> bool:
    """Whether a number is nearer to 0 than float16's normal ones."""
    return isinstance(number, float) and 0 < abs(number) < 2.0**-14


def is_rounded_by_float16(number: object) -> bool:
    """Whether float16 has a number's neighbours, and not the number itself."""
    if not isinstance(number, float) or not 2.0**-14 <= abs(number) <= 65504.0:
        return False
    return bool(struct.unpack("<e", struct.pack("<e", number))[0] != number)


def is_type(name: object) -> bool:
    """Whether a name is that of a dtype."""
    return (
        isinstance(name, str)
        and re.fullmatch(r"torch\.(?:bool|b?float|u?int|half|double|long|short)\d*", name) is not None
    )


def has_negative(sizes: object) -> bool:
    """Whether one of several numbers is negative."""
    return isinstance(sizes, tuple | list) and any(isinstance(size, int) and size < 0 for size in sizes)


def has_negative_part(sizes: object) -> bool:
    """Whether a number, or one of several, is negative."""
    return has_negative(sizes) or (isinstance(sizes, int) and sizes < 0)


def is_implicit(equation: object) -> bool:
    """Whether an equation leaves out what its result is."""
    return isinstance(equation, str) and "->" not in equation


def has_ellipsis(equation: object) -> bool:
    """Whether an equation says `...`."""
    return isinstance(equation, str) and "..." in equation


def sums_alone(equation: object) -> bool:
    """Whether an equation sums all of one tensor."""
    if not isinstance(equation, str):
        return False
    operands, arrow, result = equation.replace(" ", "").partition("->")
    return bool(arrow) and not result and "," not in operands and "." not in operands


_OF_VALUES: dict[str, Callable[..., Callable[[object], bool]]] = {
    "one_of": one_of,
    "other_than": other_than,
    "nothing_but": nothing_but,
}
_CONDITIONS: dict[str, Callable[[object], bool]] = {
    condition.__name__: condition
    for condition in (
        is_given,
        is_whole,
        is_before_last,
        is_whole_factor,
        is_uneven,
        is_below_float16,
        is_rounded_by_float16,
        is_type,
        has_negative,
        has_negative_part,
        is_implicit,
        has_ellipsis,
        sums_alone,
    )
}
