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
    exported: Exported,
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
    told = rows(exported)
    width = max((len(title) for title, _ in told), default=0)
    lines = [headline(exported, name, written, color)]
    lines += [f"  {title.ljust(width)}  {text}".rstrip() for title, text in told]
    if exported.converts and not exported.writable:
        lines += ["", verification.render(exported.verification, color, shown=shown, line=line).rstrip("\n")]
    elif exported.converts:
        if not exported.ok:
            about = "undecided" if exported.verification.is_open_on_devices else "float16"
            lines += [f"{about}: {visible(exported.verification.reason)}"]
        lines += [f"note: {visible(note)}" for note in exported.verification.notes]
    lines += [f"note: {visible(note)}" for note in exported.notes]
    lines += [f"go on with {visible(way)}" for way in exported.advice]
    return "\n".join(lines) + "\n"


def headline(exported: Exported, name: str, written: bool, color: bool = False) -> str:
    """What became of the export, in a line."""
    head = f"{visible(name)}: " if name else ""
    if not exported.converts:
        return f"{head}{paint('the model does not convert', 'error', color)}"
    if exported.ok:
        return f"{head}{paint(f'exported, and agrees with {exported.reference}', 'good', color)}"
    if exported.verification.is_open_on_devices and (written or not name):
        words = "exported: agrees with PyTorch by the specification, undecided on devices"
        return f"{head}{paint(words, 'warning', color)}"
    if exported.writable and (written or not name):
        return f"{head}{paint('exported: agrees with PyTorch in float32, undecided in float16', 'warning', color)}"
    verdict = "whether it agrees with PyTorch cannot be said"
    if exported.verification.verdict == "differs":
        verdict = (
            "float16 is not precise enough" if exported.verification.single == "agrees" else "it differs from PyTorch"
        )
    if written:
        return f"{head}{paint(f'exported by force, though {verdict}', 'warning', color)}"
    return f"{head}{paint(f'not exported: {verdict}', 'error', color)} (--force writes it)"


def rows(exported: Exported) -> list[tuple[str, str]]:
    """What there is to tell, by what it is about."""
    return [*_rows(exported)] if exported.converts else [*_not_taken(exported)]


def _rows(exported: Exported) -> Iterator[tuple[str, str]]:
    yield "route", ROUTES.get(exported.route, exported.route)
    yield from _not_taken(exported)
    for change in exported.changes:
        yield _ABOUT.get(change.kind, change.kind), _change(change)
    if exported.writable:
        yield (
            "verified",
            _verified(exported.verification, "float16" if exported.precision == "fp16" else "with float16 states"),
        )
    if exported.target:
        yield "target", f"{exported.target}, computes in {'float16' if exported.precision == 'fp16' else 'float32'}"
    yield "size", size(exported.size)
    for title, features in (("input", exported.inputs), ("output", exported.outputs), ("state", exported.states)):
        yield from _features(title, features)


def _not_taken(exported: Exported) -> Iterator[tuple[str, str]]:
    for attempt in exported.attempts:
        title = f"not by {attempt.route}" if exported.converts else attempt.route
        yield title, visible(attempt.reason)


def _change(change: Change) -> str:
    places = list(change.where)
    shown = places if len(places) <= _MOST + 1 else [*places[:_MOST], f"… and {len(places) - _MOST} more"]
    at = f": {', '.join(visible(place) or 'the model itself' for place in shown)}" if shown else ""
    details = ", ".join(filter(None, (change.exactness, change.note)))
    code = f" ({change.code})" if change.code else ""
    return visible(change.what) + code + at + (f" ({visible(details)})" if details else "")


def _verified(verification: Verification, half: str) -> str:
    parts = []
    if verification.outputs:
        worst = max(verification.outputs, key=lambda output: output.error)
        far = f"off by {number(worst.max_abs_error)}, {number(worst.error)} of the scale"
        noise = f" (on {worst.case}, where rounding does as much to the model)" if worst.error > _EXPLAINED else ""
        parts.append(f"float32 {far if worst.error else 'equal'}{noise}")
    if verification.half:
        parts.append(f"{half} {_half(verification.half)}")
    count = sum(case.error is not None for case in verification.cases)
    return f"{'; '.join(parts) or 'executed'}; on {count} sets of inputs"


def _half(outputs: Sequence[Output]) -> str:
    worst = min(outputs, key=lambda output: output.snr)
    return f"off by {number(worst.max_abs_error)}, {decibels(worst.snr)}" if worst.error else "equal"


def _features(title: str, features: Sequence[Feature]) -> Iterator[tuple[str, str]]:
    names = [visible(feature.name) for feature in features]
    widths = [max(map(len, column), default=0) for column in (names, [feature.dtype for feature in features])]
    for name, feature in zip(names, features, strict=True):
        kind = "" if feature.kind in ("tensor", "state") else feature.kind
        cells = (name.ljust(widths[0]), feature.dtype.ljust(widths[1]), feature.shape, kind)
        text = "  ".join(cell for cell in cells if cell.strip())
        yield title, text + (f"  {visible(feature.description)}" if feature.description else "")


def size(count: int) -> str:
    """Bytes in the unit that suits them."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
