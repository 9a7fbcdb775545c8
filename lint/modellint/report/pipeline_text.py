"""The result of the export of a pipeline as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from modellint.report import verification
from modellint.report.export_text import headline, size
from modellint.report.export_text import rows as rows_of_export
from modellint.report.style import paint, visible
from modellint.report.verification import ROUTES, decibels, number
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED

if TYPE_CHECKING:
    from modellint.results.diagnostic import Place
    from modellint.results.exported_pipeline import ChainComparison, Departure, ExportedPipeline, Stage


_TOLD = ("route", "verified", "size", "target")
"""Rows of an export that are told elsewhere."""


def render(
    pipeline: ExportedPipeline,
    name: str,
    written: bool,
    color: bool = False,
    *,
    shown: Callable[[str], str] = str,
    line: Callable[[Place], str] | None = None,
) -> str:
    """What became of each stage, how the chain compares, and what packages take and give.

    ``name`` is the folder; ``written`` whether the packages stand there now.
    """
    told = list(_rows(pipeline))
    width = max((len(title) for title, _ in told), default=0)
    lines = [f"{visible(name)}: {_headline(pipeline, written, color)}"]
    lines += [f"  {title.ljust(width)}  {text}".rstrip() for title, text in told]
    for stage in pipeline.stages:
        exported = stage.exported
        if exported is None:
            continue
        if exported.converts and not exported.writable:
            lines += ["", headline(exported, stage.name, False, color).removesuffix(" (--force writes it)")]
            lines.append(verification.render(exported.verification, color, shown=shown, line=line).rstrip("\n"))
        elif exported.converts and not exported.ok:
            lines.append(f"{stage.name} in float16: {visible(exported.verification.reason)}")
        notes = (*(exported.verification.notes if exported.writable else ()), *exported.notes)
        lines += [f"note: {stage.name}: {visible(note)}" for note in notes]
        lines += [f"{stage.name}: go on with {visible(way)}" for way in exported.advice]
    if pipeline.chain is not None:
        lines += _chain_lines(pipeline.chain, color)
    return "\n".join(lines) + "\n"


def _headline(pipeline: ExportedPipeline, written: bool, color: bool) -> str:
    what = _counted(len(pipeline.stages))
    if pipeline.ok and written:
        if pipeline.chain is None:
            return paint(f"{what} exported, and each agrees with PyTorch", "good", color)
        return paint(f"{what} exported, and the chain agrees with PyTorch", "good", color)
    if pipeline.writable and written:
        whole = "each agrees" if pipeline.chain is None else "the chain agrees"
        is_open = any(stage.exported and stage.exported.verification.is_open_on_devices for stage in pipeline.stages)
        words = "by the specification, undecided on devices" if is_open else "in float32, undecided in float16"
        return paint(f"{what} exported: {whole} with PyTorch {words}", "warning", color)
    why = _why(pipeline)
    if written:
        return paint(f"{what} exported by force, though {why}", "warning", color)
    ending = " (--force writes it)" if pipeline.converts else ""
    return paint(f"not exported: {why}", "error", color) + ending


def _counted(count: int) -> str:
    return f"{count} package" if count == 1 else f"{count} packages"


def _why(pipeline: ExportedPipeline) -> str:
    if failing := [stage.name for stage in pipeline.stages if stage.verdict == NOT_CONVERTED]:
        verb = "does" if len(failing) == 1 else "do"
        return f"{', '.join(failing)} {verb} not convert"
    if differing := [stage.name for stage in pipeline.stages if not (stage.exported and stage.exported.writable)]:
        verdicts = {stage.verdict for stage in pipeline.stages if stage.name in differing}
        if DIFFERS in verdicts:
            return f"{', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'} from PyTorch"
        return f"whether {', '.join(differing)} {'agrees' if len(differing) == 1 else 'agree'} cannot be said"
    if pipeline.chain is not None and pipeline.chain.verification.verdict == DIFFERS:
        if pipeline.chain.verification.single == AGREES:
            return "float16 is not precise enough for the chain"
        return "the chain differs from PyTorch"
    return "whether the chain agrees with PyTorch cannot be said"


def _rows(pipeline: ExportedPipeline) -> Iterator[tuple[str, str]]:
    for stage in pipeline.stages:
        yield from _of_stage(stage)
    if pipeline.chain is not None:
        yield from _of_chain(pipeline.chain)
    yield "target", f"{pipeline.target}, computes in {'float16' if pipeline.precision == 'fp16' else 'float32'}"
    if pipeline.converts:
        yield "size", f"{size(pipeline.size)} in {_counted(len(pipeline.stages))}"


def _of_stage(stage: Stage) -> Iterator[tuple[str, str]]:
    exported = stage.exported
    if exported is None:
        yield stage.name, "does not run"
        return
    rows = rows_of_export(exported)
    if not exported.converts:
        yield stage.name, "does not convert"
        yield from ((f"  {title}", text) for title, text in rows)
        return
    route = ROUTES.get(exported.route, exported.route)
    told = next((text for title, text in rows if title == "verified"), exported.verification.verdict)
    yield stage.name, f"{route}; {told}; {size(exported.size)}"
    yield from ((f"  {title}", text) for title, text in rows if title not in _TOLD)


def _of_chain(chain: ChainComparison) -> Iterator[tuple[str, str]]:
    counted = ", ".join(f"{each.calls} of {each.name}" for each in chain.stages)
    yield "chain", f"{chain.name}: {counted}; on one example" if counted else chain.name
    result = chain.verification
    if result.outputs:
        worst = max(result.outputs, key=lambda output: output.error)
        far = f"off by {number(worst.max_abs_error)}, {number(worst.error)} of the scale" if worst.error else "equal"
        yield "  float32", far
    if result.half:
        worst = min(result.half, key=lambda output: output.snr)
        yield (
            "  float16",
            f"off by {number(worst.max_abs_error)}, {decibels(worst.snr)}" if worst.error else "equal",
        )
    if chain.stages:
        yield "  alone", ", ".join(f"{each.name} {decibels(each.alone)}" for each in chain.stages)
        yield "  together", ", ".join(f"{each.name} {decibels(each.together)}" for each in chain.stages)


def _chain_lines(chain: ChainComparison, color: bool) -> Iterator[str]:
    result = chain.verification
    if not result.ok and not result.is_half_open:
        yield ""
        yield verification.render(result, color, target=chain.name).rstrip("\n")
        if result.verdict == DIFFERS:
            yield departure(chain.first)
        if result.verdict == DIFFERS and result.single == AGREES:
            yield "go on with --precision fp32: in float32 the chain agrees"
        return
    if result.is_half_open:
        about = "" if result.is_open_on_devices else " in float16"
        yield f"{chain.name}{about}: {visible(result.reason)}"
    yield from (f"note: {chain.name}: {visible(note)}" for note in result.notes)


def departure(first: Departure | None) -> str:
    """Where a chain that differs departs."""
    if first is None:
        return "no call of a stage departs on its own: what the chain makes of small errors does"
    which = f"call {first.call} of {first.calls} of {first.stage}" if first.calls > 1 else f"the call of {first.stage}"
    far = f"by {number(first.error)} of its scale, {decibels(first.snr)}"
    if math.isinf(first.error):
        return f"first difference: {which}, which the package does not take, or answers in another shape or with other infinities"
    how = (
        "on what PyTorch's module was given" if first.alone else "with the errors of what came before; none does alone"
    )
    return f"first difference: {which}, {far}, {how}"


def objects(
    pipeline: ExportedPipeline | None, folder: str, written: bool, version: str, entries: Sequence[Any] = ()
) -> dict[str, Any]:
    """The same as one object of JSON's own types; numbers that are not finite are the texts ``inf``, ``-inf`` and ``nan``."""
    report: dict[str, Any] = {"version": version, "folder": folder, "written": written, "diagnostics": list(entries)}
    if pipeline is None:
        return {**report, "ok": False, "verdict": NOT_CONVERTED, "stages": [], "chain": None}
    chain = pipeline.chain
    return {
        **report,
        "ok": pipeline.ok,
        "verdict": pipeline.verdict,
        "target": pipeline.target,
        "precision": pipeline.precision,
        "size": pipeline.size,
        "stages": [_stage_object(stage) for stage in pipeline.stages],
        "chain": None
        if chain is None
        else {
            "name": chain.name,
            "verification": verification.as_object(chain.verification),
            "stages": [_plain(each._asdict()) for each in chain.stages],
            "first": None if chain.first is None else _plain(chain.first._asdict()),
        },
    }


def _stage_object(stage: Stage) -> dict[str, Any]:
    exported = stage.exported
    report: dict[str, Any] = {"name": stage.name, "verdict": stage.verdict}
    if exported is None:
        return report
    lists = {key: [part._asdict() for part in getattr(exported, key)] for key in _RECORDS}
    return {
        **report,
        "package": exported.package or None,
        "route": exported.route or None,
        "size": exported.size,
        **lists,
        "notes": list(exported.notes),
        "advice": list(exported.advice),
        "verification": verification.as_object(exported.verification),
    }


_RECORDS = ("changes", "attempts", "inputs", "outputs", "states")


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: verification.plain(value) for key, value in fields.items()}
