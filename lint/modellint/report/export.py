"""The result of an export as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.report import verification
from modellint.report.style import paint, visible
from modellint.report.verification import ROUTES, decibels, number

if TYPE_CHECKING:
    from modellint.results.diagnostic import Place
    from modellint.results.exported import Change, Exported, Feature
    from modellint.results.verification import Output, Verification

_MOST = 3
_EXPLAINED = 1e-5
"""The error over the scale above which an output agrees only where the model itself is no more exact."""
_ABOUT = {"fixed": "fixed", "supplied": "supplied", "mended": "mended", "undone": "not fixed"}


def render(
    found: Exported,
    name: str,
    written: bool,
    color: bool = False,
    *,
    shown: Callable[[str], str] = str,
    line: Callable[[Place], str] | None = None,
) -> str:
    """What was fixed, by which route it was converted, how far off it is, and what the package takes and gives.

    ``name`` is what the package is called, empty where it is kept in memory; ``written`` whether it stands there now.
    """
    rows = [*_rows(found)] if found.converts else [*_not_taken(found)]
    width = max((len(title) for title, _ in rows), default=0)
    lines = [_head(found, name, written, color)]
    lines += [f"  {title.ljust(width)}  {text}".rstrip() for title, text in rows]
    if found.converts and not found.writable:
        lines += ["", verification.render(found.verification, color, shown=shown, line=line).rstrip("\n")]
    elif found.converts:
        if not found.ok:
            lines += [f"float16: {visible(found.verification.reason)}"]
        lines += [f"note: {visible(note)}" for note in found.verification.notes]
    lines += [f"note: {visible(note)}" for note in found.notes]
    lines += [f"go on with {visible(one)}" for one in found.advice]
    return "\n".join(lines) + "\n"


def _head(found: Exported, name: str, written: bool, color: bool) -> str:
    head = f"{visible(name)}: " if name else ""
    if not found.converts:
        return f"{head}{paint('the model does not convert', 'error', color)}"
    if found.ok:
        return f"{head}{paint('exported, and agrees with PyTorch', 'good', color)}"
    if found.writable and (written or not name):
        return f"{head}{paint('exported: agrees with PyTorch in float32, undecided in float16', 'warning', color)}"
    verdict = "whether it agrees with PyTorch cannot be said"
    if found.verification.verdict == "differs":
        verdict = (
            "float16 is not precise enough" if found.verification.single == "agrees" else "it differs from PyTorch"
        )
    if written:
        return f"{head}{paint(f'exported by force, though {verdict}', 'warning', color)}"
    return f"{head}{paint(f'not exported: {verdict}', 'error', color)} (--force writes it)"


def _rows(found: Exported) -> Iterator[tuple[str, str]]:
    yield "route", ROUTES.get(found.route, found.route)
    yield from _not_taken(found)
    for change in found.changes:
        yield _ABOUT.get(change.kind, change.kind), _change(change)
    if found.writable:
        yield (
            "verified",
            _verified(found.verification, "float16" if found.precision == "fp16" else "with float16 states"),
        )
    yield "target", f"{found.target}, computes in {'float16' if found.precision == 'fp16' else 'float32'}"
    yield "size", size(found.size)
    for title, features in (("input", found.inputs), ("output", found.outputs), ("state", found.states)):
        yield from _features(title, features)


def _not_taken(found: Exported) -> Iterator[tuple[str, str]]:
    for attempt in found.attempts:
        title = f"not by {attempt.route}" if found.converts else attempt.route
        yield title, visible(attempt.reason)


def _change(change: Change) -> str:
    where = list(change.where)
    shown = where if len(where) <= _MOST + 1 else [*where[:_MOST], f"… and {len(where) - _MOST} more"]
    at = f": {', '.join(visible(one) or 'the model itself' for one in shown)}" if shown else ""
    told = ", ".join(filter(None, (change.exactness, change.note)))
    code = f" ({change.code})" if change.code else ""
    return visible(change.what) + code + at + (f" ({visible(told)})" if told else "")


def _verified(found: Verification, half: str) -> str:
    parts = []
    if found.outputs:
        worst = max(found.outputs, key=lambda one: one.error)
        far = f"off by {number(worst.max_abs_error)}, {number(worst.error)} of the scale"
        noise = f" (on {worst.case}, where rounding does as much to the model)" if worst.error > _EXPLAINED else ""
        parts.append(f"float32 {far if worst.error else 'equal'}{noise}")
    if found.half:
        parts.append(f"{half} {_half(found.half)}")
    count = sum(one.error is not None for one in found.cases)
    return f"{'; '.join(parts) or 'executed'}; on {count} sets of inputs"


def _half(outputs: Sequence[Output]) -> str:
    worst = min(outputs, key=lambda one: one.snr)
    return f"off by {number(worst.max_abs_error)}, {decibels(worst.snr)}" if worst.error else "equal"


def _features(title: str, features: Sequence[Feature]) -> Iterator[tuple[str, str]]:
    names = [visible(one.name) for one in features]
    widths = [max(map(len, column), default=0) for column in (names, [one.dtype for one in features])]
    for name, one in zip(names, features, strict=True):
        kind = "" if one.kind in ("tensor", "state") else one.kind
        cells = (name.ljust(widths[0]), one.dtype.ljust(widths[1]), one.shape, kind)
        text = "  ".join(cell for cell in cells if cell.strip())
        yield title, text + (f"  {visible(one.description)}" if one.description else "")


def size(count: int) -> str:
    """Bytes in the unit that suits them."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
