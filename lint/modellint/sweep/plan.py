"""Plan of a sweep: targets, collections and catalogues as tasks, one for each target × action × destination × route that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from modellint import destinations
from modellint.cache import digest, rules_digest
from modellint.destinations.export_options import Options
from modellint.results.sweep_row import CHECK, EXPORT, NOT_RUN, VERIFY, SweepRow
from modellint.run import Job, UsageError
from modellint.session import request_dispatch
from modellint.session.answer_cache import digests_of_inputs
from modellint.session.messages import Action, Check, Export, Limits, Models, Request, Verify
from modellint.session.target import parse
from modellint.session.target_facts import digest_of, is_current
from modellint.sweep.task import Task

CATALOGUES = ("transformers", "timm", "diffusers", "torchvision")
"""The packages of which there is a catalogue."""


def catalogue(job: Job, name: str, seed: int) -> Request:
    """The request for a catalogue, which is a collection like any other. Raises ``UsageError``."""
    target = parse(f"modellint.sweep.catalogue.{name}_models:models")
    assert target is not None
    return request_dispatch.request_for(job, target, seed=seed)


def expanded(job: Job, requests: Iterable[Request], told: Callable[[str], None]) -> Iterator[tuple[str, Request]]:
    """Each model with its name: targets as they are, those of a collection one by one.

    Collections are listed in processes of their own. Raises ``UsageError`` where one cannot be listed.
    """
    for request in requests:
        names = () if request.target.item or _is_plain(request) else _models(job, request, told)
        if not names:
            yield request.target.text, request
        for name in names:
            text = f"{request.target.text}[{name}]"
            yield name, request._replace(target=request.target._replace(text=text, item=name))


def _is_plain(request: Request) -> bool:
    """Whether the target's own file shows, without being run, that it is one model: a class, or a function that yields nothing."""
    import ast

    file, name = request.location.file, request.target.name
    if file is None:
        return False
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    match [node for node in tree.body if getattr(node, "name", None) == name]:
        case [ast.ClassDef()]:
            return True
        case [ast.FunctionDef(decorator_list=[]) as function]:
            return not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))
    return False


def _models(job: Job, request: Request, told: Callable[[str], None]) -> tuple[str, ...]:
    told(f"listing {request.target.text}")
    answer = request_dispatch.answer(job, request._replace(action=Models()), Limits())
    if answer.diagnostics:
        raise UsageError(f"{request.target.text}: {answer.diagnostics[0].message}")
    for name, count in Counter(answer.models).items():
        if count > 1:
            raise UsageError(f"{request.target.text} yields {name!r} {count} times: give each model a name of its own")
        if not name or "[" in name or "]" in name:
            raise UsageError(f"{request.target.text} yields {name!r}: a name is not empty, and has no brackets")
    return answer.models


def tasks(job: Job, models: Iterable[tuple[str, Request]], actions: Sequence[str], limits: Limits) -> tuple[Task, ...]:
    """The tasks for these models, each once."""
    planned: dict[tuple[str, str, str, str], Task] = {}
    plugins = tuple(plugin.path for plugin in job.plugins if plugin.path is not None)
    rules = rules_digest(plugins) if plugins else ""
    for name, request in models:
        for action in actions:
            for wanted in _by_route(job, request, action):
                asked = wanted._replace(action=_action(action, wanted.destination.name), with_facts=True)
                # The settings know of no single route.
                asked = request_dispatch.under_settings(job, asked)._replace(destination=wanted.destination)
                task = Task(asked, limits, name, action, _configuration(asked, rules))
                planned.setdefault(task.key, task)
    return tuple(planned.values())


def _action(name: str, destination: str) -> Action:
    """What is asked of a worker; a package is made in a folder that the task has for itself."""
    if name == CHECK:
        return Check()
    if name == VERIFY:
        return Verify()
    return Export(Options(), Path("model" + destinations.named(destination).suffix))


def _by_route(job: Job, request: Request, action: str) -> Iterator[Request]:
    """The request for each destination and, for a comparison on Core ML where the route is open, for each route."""
    for wanted in request_dispatch.requests_by_goal(job, [request]):
        goal = wanted.destination
        if action == VERIFY and goal.name == "coreml" and goal.frontend == "auto":
            for route in ("trace", "export"):
                yield wanted._replace(destination=goal._replace(frontend=route))
        else:
            yield wanted


def _configuration(request: Request, rules: str) -> str:
    """A digest of all that decides on a row but for the code: that is in the row's files and versions."""
    parts = (
        repr(tuple(request.destination)),
        repr(request.inputs),
        repr(sorted(request.rules)),
        repr(request.seed),
        *digests_of_inputs(request),
        rules,
    )
    return digest(part.encode("utf-8", "surrogatepass") for part in parts)[:16]


def remaining(planned: Sequence[Task], known: Sequence[SweepRow]) -> tuple[Task, ...]:
    """The tasks whose rows are missing, or no longer hold: for other files, versions or settings, or with more time."""
    rows: dict[tuple[str, str, str, str], SweepRow] = {}
    for row in known:
        rows.setdefault(row.key, row)
    # Most targets are made from the same files.
    digest = cache(digest_of)
    return _joined([task for task in planned if not _holds(task, rows.get(task.key), digest)])


def _joined(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks, with each check left to the export of the same target where there is one."""
    by_key = {task.key: task for task in tasks}
    joined: dict[tuple[str, str, str, str], Task] = {}
    for task in tasks:
        check = by_key.get(task.check.key) if task.action == EXPORT else None
        if check is not None and check.configuration == task.configuration:
            joined[task.key] = task._replace(with_check=True)
    checked = {task.check.key for task in joined.values()}
    return tuple(joined.get(task.key, task) for task in tasks if task.key not in checked)


def _holds(task: Task, row: SweepRow | None, digest: Callable[[str], str | None]) -> bool:
    if row is None or row.configuration != task.configuration:
        return False
    if row.status == NOT_RUN and row.timeout < task.limits.timeout:
        return False
    return is_current(row.versions, row.files, digest)
