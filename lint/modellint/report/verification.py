"""A verification as text and as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from modellint.report.style import paint, visible
from modellint.results.diagnostic import Place

if TYPE_CHECKING:
    from modellint.results.verification import FirstDifference, Lost, Output, Recorded, Verification

Shown = Callable[[str], str]
"""How the path of a file is shown."""
Line = Callable[[Place], str]
"""The text of a statement's first row, empty where there is none."""

_HEADS = ("output", "shape", "max abs error", "max rel error", "error/scale", "SNR", "cosine", "non-finite", "")
_OF_HALF = "; float16 is judged on those of the example's kind alone"
ROUTES = {
    "trace": "torch.jit.trace",
    "export": "torch.export",
    "decomposed": "torch.export with core ATen decompositions",
}


def render(
    verification: Verification,
    color: bool = False,
    *,
    target: str = "",
    shown: Shown = str,
    line: Line | None = None,
) -> str:
    """The verdict, a table for each precision, and where the programs first depart."""
    lines: list[str] = []
    for precision, outputs in by_precision(verification):
        lines += _table(precision, outputs, color)
    if verification.first_difference is not None:
        lines += [*_first(verification.first_difference, shown, line), ""]
    if verification.recorded is not None:
        lines += [visible(line) for line in devices(verification.recorded)] + [""]
    lines += [f"note: {visible(note)}" for note in verification.notes]
    return "\n".join([*lines, _verdict(verification, target, color)]) + "\n"


def judgement(verification: Verification) -> tuple[str, str]:
    """The verdict in words, and how it looks."""
    match verification.verdict:
        case "differs" if verification.recorded is not None and verification.recorded.differing:
            return "differs from PyTorch on the device", "error"
        case "agrees" if verification.recorded is not None:
            return "agrees with PyTorch on the device", "good"
        case "agrees":
            return "agrees with PyTorch", "good"
        case "differs" if verification.single == "agrees":
            return "agrees in float32, and differs in float16", "error"
        case "undecided" if verification.is_open_on_devices:
            return "agrees by the specification, undecided on devices", "warning"
        case "undecided" if verification.single == "agrees":
            return "agrees in float32, undecided in float16", "warning"
        case "differs":
            return "differs from PyTorch", "error"
        case "not converted":
            return "does not convert", "error"
        case _:
            return "undecided", "warning"


def _verdict(verification: Verification, target: str, color: bool) -> str:
    name = f"{visible(target)}: " if target else ""
    words, look = judgement(verification)
    verdict = paint(words, look, color)
    if verification.verdict == "not converted":
        return "\n".join([f"{name}{verdict}", *(f"  {visible(why)}" for why in reasons(verification.reason))])
    reason = f" ({visible(verification.reason)})" if verification.reason and verification.verdict != "agrees" else ""
    count = sum(case.error is not None for case in verification.cases)
    how = [f"converted by {ROUTES[verification.route]}"] if verification.route in ROUTES else []
    how += [f"{count} sets of inputs" if count > 1 else "one set of inputs"] if count else []
    return f"{name}{verdict}{reason}" + (f": {', '.join(how)}" if how else "")


_REASON = re.compile(rf"(?:^|; )({'|'.join(ROUTES)}): ")


def reasons(text: str) -> list[str]:
    """Why a model does not convert, a line for each route that was tried."""
    first, *rest = _REASON.split(text)
    lines = [f"{ROUTES[route]}: {why}" for route, why in zip(rest[::2], rest[1::2], strict=True)]
    return [first, *lines] if first else lines


def _table(precision: str, outputs: Sequence[Output], color: bool) -> list[str]:
    rows = [cells(output) for output in outputs]
    heads = (precision, *_HEADS[1:])
    wide = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [paint(_line(heads, wide), "bold", color)]
    lines += [
        paint(_line(row, wide), "error", color) if not output.ok else _line(row, wide)
        for row, output in zip(rows, outputs, strict=True)
    ]
    return [*lines, ""]


def _line(texts: Sequence[str], wide: Sequence[int]) -> str:
    parts = [
        text.ljust(width) if at < 2 else text.rjust(width)
        for at, (text, width) in enumerate(zip(texts, wide, strict=True))
    ]
    return "  ".join(parts).rstrip()


def by_precision(verification: Verification) -> Iterator[tuple[str, Sequence[Output]]]:
    """The outputs of each program that was executed, by the program's precision or runtime."""
    groups = [("float32", verification.outputs), ("float16", verification.half), ("Core ML", verification.runtime)]
    if verification.recorded is not None:
        groups.append(("executed here", verification.recorded.executed))
        groups += [(unit.unit, unit.outputs) for unit in verification.recorded.units]
    yield from (group for group in groups if group[1])


def devices(recorded: Recorded) -> Iterator[str]:
    """For each compute unit which two of three agree: PyTorch, the device, and the package executed here."""
    for unit in recorded.units:
        system = f"{unit.unit} of macOS {unit.system}, {unit.machine}, coremltools {unit.coremltools}"
        if unit.error:
            yield f"{system}: no predictions: {unit.error}"
            continue
        yield f"{system}:"
        pairs = (("device and PyTorch", unit.outputs), ("device and the package executed here", unit.executed))
        for who, outputs in (*pairs, ("PyTorch and the package executed here", recorded.executed)):
            yield f"  {who} {_agreement(outputs)}"
    left = recorded.sets - recorded.judged
    yield f"{recorded.judged} of {recorded.sets} sets of inputs judged" + (_OF_HALF if left else "")


def _agreement(outputs: Sequence[Output]) -> str:
    """Whether outputs agree, and where they are furthest apart."""
    if not outputs:
        return "are not compared"
    furthest = min(outputs, key=lambda output: (output.ok, output.snr))
    words = "agree" if furthest.ok else "differ"
    return f"{words}: {title(furthest)} {_distance(furthest)}, on {furthest.case}"


def _distance(output: Output) -> str:
    if output.got is not None:
        return f"is {sizes(output.got)} and not {sizes(output.shape)}"
    if output.max_abs_error == 0:
        return "is equal"
    if output.unequal:
        return f"has {output.unequal:.2g} of its elements unequal"
    return f"is off by {number(output.max_abs_error)} ({decibels(output.snr)})"


def cells(output: Output) -> tuple[str, ...]:
    """An output as a row of the table."""
    return (visible(title(output)), *measures(output), "ok" if output.ok else f"differs on {output.case}")


def measures(output: Output) -> tuple[str, ...]:
    """An output's shape and error measures, as both tables show them."""
    return (
        sizes(output.shape) if output.got is None else f"{sizes(output.shape)}, got {sizes(output.got)}",
        *map(number, (output.max_abs_error, output.max_rel_error, output.error)),
        decibels(output.snr),
        cosine(output.cosine),
        "/".join(map(str, output.non_finite)) if any(output.non_finite) else "-",
    )


def title(output: Output) -> str:
    """An output by its place in what the model returns, and its name in the program."""
    return f"{output.path} {output.name}" if output.path else output.name


def sizes(shape: Sequence[int]) -> str:
    """A shape as the command line takes it."""
    return "x".join(map(str, shape)) or "scalar"


def number(value: float) -> str:
    """A magnitude in two digits."""
    return "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else str(value)


def decibels(value: float) -> str:
    """A ratio of signal to noise; exact where there is no noise."""
    return f"{value:.0f} dB" if math.isfinite(value) else "exact" if value > 0 else "none"


def cosine(value: float) -> str:
    """The cosine of the angle between two outputs; nothing where one is not finite."""
    return "-" if math.isnan(value) else f"{value:.6f}"


def location(place: Place | None, shown: Shown) -> str:
    """A place as ``path:row``, the form that editors take."""
    return "" if place is None else f"{shown(place.path)}:{place.span.row}"


def _first(first: FirstDifference, shown: Shown, line: Line | None) -> Iterator[str]:
    title = "float16 first fails" if first.kind == "precision" else "first difference"
    yield f"{title}: {visible(first.message)}"
    at = location(first.place, shown)
    inside = f" in {visible(first.module)}" if first.module else ""
    if at:
        yield f"  at {visible(at)}{inside}, on {visible(first.case)}"
        yield from _source(first.place, line)
    for lost in missing(first):
        said = location(lost.place, shown)
        yield f"  not in the program: {visible(lost.operator)}" + (f" at {visible(said)}" if said else "")
        yield from _source(lost.place, line)


def missing(first: FirstDifference) -> list[Lost]:
    """What the program lacks, but for what the first difference itself tells."""
    return [
        lost
        for lost in first.lost
        if lost.place != first.place or (lost.operator != first.operator and first.kind != "capture")
    ]


def _source(place: Place | None, line: Line | None) -> Iterator[str]:
    if text := source_line(place, line):
        yield f"    {visible(text)}"


def source_line(place: Place | None, line: Line | None) -> str:
    """A statement's row and text; nothing where the text is not known."""
    text = "" if place is None or line is None else line(place).strip()
    return f"{place.span.row} | {text}" if text and place is not None else ""


def render_json(verification: Verification, target: str, version: str, entries: Sequence[Any] = ()) -> str:
    """The verification and the findings that belong to it as one object."""
    report = {
        "version": version,
        "target": target or None,
        **as_object(verification),
        "diagnostics": list(entries),
    }
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)


def as_object(verification: Verification) -> dict[str, Any]:
    """What JSON has of a verification."""
    return {field: plain(getattr(verification, field)) for field in _FIELDS}


_FIELDS = (
    *("ok", "verdict", "reason", "route", "outputs", "half", "runtime"),
    *("half_ok", "single", "first_difference", "cases", "layers", "overflows", "notes", "recorded"),
)
"""Of a verification what JSON has, in its order."""


def plain(value: Any) -> Any:
    """A part of a verification as JSON's own types; numbers that are not finite are the texts ``inf``, ``-inf`` and ``nan``."""
    match value:
        case Place(path=path, span=span):
            return {
                "filename": path,
                "location": {"row": span.row, "column": span.column},
                "end_location": {"row": span.end_row, "column": span.end_column},
            }
        case tuple() if hasattr(value, "_asdict"):
            return {name: plain(field) for name, field in value._asdict().items()}
        case tuple():
            return [plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value
