"""Pages of the known faults of coremltools, of ``data/coreml_faults.json`` and the results beside each version.

``python docs/make.py faults`` writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from modellint.data.coreml_faults import (
    BUILD,
    ROUTES,
    Fault,
    FaultProgram,
    Outcome,
    Results,
    constants,
    conversions,
    results,
)

SINGLE, HALF = "float32", "float16"
_NO = Outcome("not run", "not asked")
_SAID = {"wrong": "all", "half": "all in half precision"}
"""What a fault that all versions have is told by; the states in their order."""
_WIDTH = 98
"""Letters of the arguments of a conversion that fit in its line."""
States = tuple[str, ...]
"""What became of a program by one route, for each version."""


class Shown(NamedTuple):
    """A run that shows a fault."""

    versions: tuple[str, ...]
    """All in which it is wrong."""
    torch: str
    program: FaultProgram
    route: str
    precision: str
    outcome: Outcome
    """Beside the newest of them."""


def tables() -> dict[str, str]:
    """The generated parts of the page of faults, by name."""
    found = results()
    return {
        "versions": _versions(found),
        "conversions": _table(
            ("Program", "PyTorch", "The converted program"), conversions(), lambda fault: _where(fault, found)
        ),
        "constants": _table(
            ("Operation", "What is computed", "What the operation means"),
            constants(),
            lambda fault: _where_built(fault, found),
        ),
    }


def _versions(found: Sequence[Results]) -> str:
    names = [each.name for each in found]
    lines = [
        f"Run beside coremltools {_and(names)}, with PyTorch {_and(sorted({each.torch for each in found}))}.",
        *(
            f"`{each.name}` is a commit that calls itself {each.coremltools}."
            for each in found
            if each.name != each.coremltools
        ),
        "",
        "| coremltools | Conversions | wrong | right | refused | Constants | wrong | right |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        kinds = Counter(_kind(fault, each) for fault in conversions())
        built = Counter(_kind(fault, each) for fault in constants())
        row = [len(conversions()), kinds["wrong"], kinds["right"], kinds["refused"]]
        row += [len(constants()), built["wrong"], built["right"]]
        lines.append(f"| {each.name} | {' | '.join(map(str, row))} |")
    return "\n".join(lines) + "\n"


def _kind(fault: Fault, found: Results) -> str:
    """What became of a fault beside a version: wrong where any run is."""
    seen = {outcome.result for outcomes in found.outcomes.get(fault.id, {}).values() for outcome in outcomes.values()}
    return next((kind for kind in ("wrong", "right", "refused") if kind in seen), "not run")


def _table(heads: Sequence[str], faults: Iterable[Fault], where: Callable[[Fault], str]) -> str:
    columns = [*heads, "Where", "Upstream"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join([*fault.words, where(fault), _upstream(fault)])} |" for fault in faults]
    return "\n".join(lines) + "\n"


def _upstream(fault: Fault) -> str:
    links = [f"{_link(report.number)}{' is near' if report.note else ''}" for report in fault.reports]
    if fault.is_reported:
        return ", ".join(links)
    said = _not_theirs(fault) or ("not reported" if _shown(fault) else "not reported, mended")
    return "; ".join([said, *links])


def _link(number: str) -> str:
    repository, _, position = number.partition("#")
    name = "" if repository == "apple/coremltools" else f"{repository.rpartition('/')[2]} "
    return f"[{name}#{position}](https://github.com/{repository}/issues/{position})"


def _not_theirs(fault: Fault) -> str:
    """Whose fault it is where it is not coremltools'; empty otherwise."""
    if fault.own:
        return fault.own
    wrong = [
        outcome
        for found in results()
        for outcomes in found.outcomes.get(fault.id, {}).values()
        for outcome in outcomes.values()
        if outcome.result == "wrong"
    ]
    return "the capture's own" if wrong and all(outcome.captured for outcome in wrong) else ""


def _where(fault: Fault, found: Sequence[Results]) -> str:
    """Route by version by precision, in few words; programs of a fault are told apart where they differ."""
    of_programs = {program.name: _routes(fault, program, found) for program in fault.programs}
    names = [each.name for each in found]
    if len({*of_programs.values()}) == 1:
        return _told(next(iter(of_programs.values())), names)
    grouped: dict[tuple[tuple[str, States], ...], list[str]] = {}
    for name, states in of_programs.items():
        grouped.setdefault(states, []).append(f"`{name}`")
    return ". ".join(f"{', '.join(programs)} by {_told(states, names)}" for states, programs in grouped.items())


def _routes(fault: Fault, program: FaultProgram, found: Sequence[Results]) -> tuple[tuple[str, States], ...]:
    """The states of a program, by route."""
    states = {route: tuple(_state(fault, program, route, each) for each in found) for route in ROUTES}
    return tuple((route, of_route) for route, of_route in states.items() if {*of_route} != {""})


def _state(fault: Fault, program: FaultProgram, route: str, found: Results) -> str:
    outcomes = found.outcomes.get(fault.id, {}).get(program.name, {})
    single, half = outcomes.get(f"{route} {SINGLE}", _NO), outcomes.get(f"{route} {HALF}", _NO)
    if single == _NO:
        return ""
    if single.result != "wrong" and half.result == "wrong":
        return "half"
    return single.result


def _told(routes: Sequence[tuple[str, States]], names: Sequence[str]) -> str:
    if len(routes) == len(ROUTES) and len({states for _, states in routes}) == 1:
        return _of_route("both", routes[0][1], names)
    return "; ".join(_of_route(route, states, names) for route, states in routes)


def _of_route(route: str, states: States, names: Sequence[str]) -> str:
    """As in ``trace: 8.3.0, 9.0 / right in main``."""
    by_state: dict[str, list[str]] = {}
    for name, state in zip(names, states, strict=True):
        by_state.setdefault(state, []).append(name)
    if len(by_state) == 1:
        (state,) = by_state
        return f"{route}: {_SAID.get(state, state)}"
    order = [*_SAID, *sorted(by_state.keys() - _SAID.keys(), reverse=True)]
    told = [_in_versions(state, by_state[state]) for state in order if state in by_state]
    return f"{route}: {' / '.join(told)}"


def _in_versions(state: str, names: Sequence[str]) -> str:
    versions = ", ".join(names)
    return {"wrong": versions, "half": f"{versions} in half precision"}.get(state, f"{state} in {versions}")


def _where_built(fault: Fault, found: Sequence[Results]) -> str:
    wrong = [each.name for each in found if _kind(fault, each) == "wrong"]
    right = [each.name for each in found if _kind(fault, each) == "right"]
    if len(wrong) == len(found):
        return "all"
    return " / ".join(_in_versions(state, said) for state, said in (("wrong", wrong), ("right", right)) if said)


def reports() -> str:
    """The page of texts for the faults that nobody has reported."""
    parts = [
        "# Faults of coremltools that nobody has reported",
        "A text for each fault of [Where coremltools differs](coremltools-faults.md) that has no report upstream, that the newest version"
        " we ran still has, and that is coremltools' own, ready to be posted as an issue. It is written by `python docs/make.py faults`."
        " Search the issues before you post one: somebody may have been quicker. The numbers are those of an executor of MIL on Linux;"
        " who has a Mac adds what `predict` gives.",
    ]
    parts += [text for fault in conversions() if (text := report(fault))]
    parts += [text for fault in constants() if (text := report(fault))]
    return "\n\n".join(parts) + "\n"


def report(fault: Fault) -> str:
    """The text of an issue; empty where there is nothing to report."""
    shown = _shown(fault)
    if fault.is_reported or _not_theirs(fault) or shown is None:
        return ""
    precision = {HALF: ", half precision", SINGLE: ", single precision"}.get(shown.precision, "")
    route = {"trace": "`torch.jit.trace`", "export": "`torch.export`"}.get(shown.route, "")
    by = f"by {route}{precision}" if route else "while the program is built"
    expected, obtained = fault.words[1:] if shown.route else fault.words[:0:-1]
    return "\n\n".join(
        [
            f"## {fault.title}",
            f"**Versions:** coremltools {_and(shown.versions)}; PyTorch {shown.torch}; Linux. Seen {by}.",
            "**Minimal program:**",
            f"```python\n{_script(shown)}```",
            f"**Expected:** {expected}. For the program above:",
            f"```\n{shown.outcome.expected}\n```",
            f"**Obtained:** {obtained}. For the program above:",
            f"```\n{shown.outcome.obtained}\n```",
        ]
    )


def _shown(fault: Fault) -> Shown | None:
    """The first run that shows a fault beside the newest version; None where that is mended."""
    newest = results()[-1]
    for program in fault.programs:
        for route, precision, key in _keys():
            outcome = newest.outcomes.get(fault.id, {}).get(program.name, {}).get(key, _NO)
            if outcome.result == "wrong" and not outcome.captured:
                versions = tuple(
                    each.name
                    for each in results()
                    if each.outcomes.get(fault.id, {}).get(program.name, {}).get(key, _NO).result == "wrong"
                )
                return Shown(versions, newest.torch, program, route, precision, outcome)
    return None


def _keys() -> Iterator[tuple[str, str, str]]:
    for precision in (SINGLE, HALF):
        for route in ROUTES:
            yield route, precision, f"{route} {precision}"
    yield "", "", BUILD


def _script(shown: Shown) -> str:
    """The program, and the lines that run it."""
    return f"{_IMPORTS.get(shown.route, '')}{shown.program.text}\n\n{''.join(line + chr(10) for line in _lines(shown))}"


_IMPORTS: Mapping[str, str] = {
    "trace": "import coremltools as ct\nimport numpy as np\n",
    "export": "import coremltools as ct\n",
}


def _lines(shown: Shown) -> Iterator[str]:
    program, route = shown.program, shown.route
    if not route:
        yield "program, expected = make()"
        yield '(output,) = program.functions["main"].outputs'
        yield "print(expected, output.val, output.shape)"
        return
    yield "model, *calls = make()"
    yield "model.eval()"
    if program.compares == "model":
        yield "print(model(*calls[0]))"
    if program.writes:
        yield "before = {name: value.clone() for name, value in model.state_dict().items()}"
    options = []
    if route == "trace":
        yield "captured = torch.jit.trace(model, calls[0])"
        yield "types = {torch.float32: np.float32, torch.bool: np.bool_}"
        sizes = "each.shape"
        if any(program.flexible):
            yield f"flexible = {[list(axes) for axes in program.flexible]}"
            yield (
                "shapes = [[ct.RangeDim(1, 16) if axis in axes else size for axis, size in enumerate(each.shape)]"
                " for each, axes in zip(calls[0], flexible)]"
            )
            sizes = "shape"
        loop = "each, shape in zip(calls[0], shapes)" if any(program.flexible) else "each in calls[0]"
        yield f"inputs = [ct.TensorType(shape={sizes}, dtype=types.get(each.dtype, np.int32)) for {loop}]"
        options.append("inputs=inputs")
    else:
        dynamic = ""
        if any(program.flexible):
            axes = ", ".join(
                f"{{{', '.join(f'{axis}: torch.export.Dim.AUTO' for axis in each)}}}" for each in program.flexible
            )
            dynamic = f", dynamic_shapes=({axes},)"
        core = "" if program.core_aten else "{}"
        yield f"captured = torch.export.export(model, calls[0]{dynamic}).run_decompositions({core})"
    if program.writes:
        yield "model.load_state_dict(before)  # the capture has run it"
    options.append(f"compute_precision=ct.precision.{shown.precision.upper()}")
    if program.target:
        options.append(f"minimum_deployment_target=ct.target.{program.target}")
    converted = f"captured, {', '.join(options)}"
    if len(converted) > _WIDTH:
        yield from ("mlmodel = ct.convert(", f"    {converted}", ")")
    else:
        yield f"mlmodel = ct.convert({converted})"
    if "def finish(" in program.text:
        yield "mlmodel = finish(mlmodel)"
    if program.compares == "model":
        yield "print(model(*calls[0]))"
        return
    yield "names = [each.name for each in mlmodel.get_spec().description.input]"
    yield "for call in calls:"
    yield "    print(model(*call), mlmodel.predict({name: each.numpy() for name, each in zip(names, call)}))"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
