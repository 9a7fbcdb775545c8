"""The result of the export of a language model as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.report.export_text import rows as rows_of_export
from modellint.report.export_text import size
from modellint.report.style import paint, visible
from modellint.report.verification import ROUTES, decibels, number
from modellint.results.verification import DIFFERS, UNDECIDED

if TYPE_CHECKING:
    from modellint.results.exported_language_model import ExportedLanguageModel

_KEPT = ("input", "output", "state")


def render(exported: ExportedLanguageModel, name: str, color: bool = False) -> str:
    """What became of the export, how the package generates, and what its functions take and give.

    ``name`` is what the package is called, empty where it is kept in memory.
    """
    told = list(_rows(exported))
    width = max((len(title) for title, _ in told), default=0)
    lines = [_headline(exported, name, color), *(f"  {title.ljust(width)}  {text}".rstrip() for title, text in told)]
    if exported.reason:
        lines.append(visible(exported.reason))
    lines += [f"note: {visible(note)}" for note in exported.notes]
    return "\n".join(lines) + "\n"


def _headline(exported: ExportedLanguageModel, name: str, color: bool) -> str:
    head = f"{visible(name)}: " if name else ""
    if exported.ok:
        return f"{head}{paint('exported, and generates what PyTorch does', 'good', color)}"
    if exported.is_open_on_devices:
        verdict = "exported: generates what PyTorch does by the specification, undecided on devices"
        return f"{head}{paint(verdict, 'warning', color)}"
    if exported.writable and (first := exported.generation.first) is not None:
        verdict = f"exported: agrees with PyTorch in float32, and rounding takes another token at step {first.step}"
        return f"{head}{paint(verdict, 'warning', color)}"
    verdict = {
        DIFFERS: "not exported: it differs from PyTorch",
        UNDECIDED: "not exported: whether it agrees with PyTorch cannot be said",
    }.get(exported.verdict, "the model does not convert")
    return f"{head}{paint(verdict, 'error', color)}"


def _rows(exported: ExportedLanguageModel) -> Iterator[tuple[str, str]]:
    for function, each in exported.functions:
        rows = rows_of_export(each)
        if not each.converts:
            yield from ((f"{function} by {title}", text) for title, text in rows)
            continue
        verified = next((text for title, text in rows if title == "verified"), each.verification.verdict)
        yield function, f"{ROUTES.get(each.route, each.route)}; {verified}"
        yield from ((f"  {title}", text) for title, text in rows if title in _KEPT[:2])
    states = next((each.states for _, each in exported.functions if each.states), ())
    if states:
        # The states of recurrences are as long whatever the text.
        is_long = any(str(exported.context) in state.shape.split("x") for state in states)
        length = f", {exported.context} tokens long" if is_long else ""
        yield "caches", f"{len(states)} states of float16{length}"
    yield from _generated(exported)
    yield "target", f"{exported.target}, computes in {'float16' if exported.precision == 'fp16' else 'float32'}"
    if exported.size:
        yield (
            "size",
            f"{size(exported.size)} with shared weights ({size(exported.apart)} in {len(exported.functions)} packages)",
        )


def _generated(exported: ExportedLanguageModel) -> Iterator[tuple[str, str]]:
    generation = exported.generation
    if not generation.tokens:
        return
    yield (
        "tokens",
        f"{generation.equal} of {generation.tokens} as PyTorch's, greedily, behind a prompt of {generation.prompt}",
    )
    if (first := generation.first) is not None:
        yield (
            "first other",
            f"token {first.step}: {first.got} instead of {first.expected}; PyTorch prefers its own by {number(first.margin)}, the "
            f"package by {number(first.margin_got)}",
        )
    single = f"float32 off by {number(generation.single)} of the scale; " if generation.single is not None else ""
    yield (
        "each step",
        f"{single}logits at least {decibels(generation.logits)}, caches {decibels(generation.states)}; a second run gives "
        f"{'the same' if generation.repeats else 'something else'}",
    )
