"""Line coverage: the lines of the user's code that ran while a model was built and run, by module."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

from torch import nn

from modellint.live.code import places
from modellint.live.code.places import Project


class _Ran:
    """What ran of one code object: rows for each module that was its ``self``, and rows without one."""

    __slots__ = ("code", "instances", "others")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instances: dict[int, tuple[weakref.ref[nn.Module], set[int]]] = {}
        self.others: set[int] = set()


class Executed:
    """Records lines of the project's own files while it is entered; other code runs at almost full speed."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._files: dict[str, bool] = {}
        self._ran: dict[int, _Ran] = {}
        self._before: Any = None

    def __enter__(self) -> Executed:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        path = code.co_filename
        owned = self._files.get(path)
        if owned is None:
            owned = self._files[path] = self._project.owns(path)
            if owned:
                places.remember(path)
        if not owned:
            return None
        ran = self._ran.get(id(code))
        if ran is None or ran.code is not code:
            ran = self._ran[id(code)] = _Ran(code)
        rows = self._rows_of(ran, _self_of(frame))

        def each_line(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                rows.add(frame.f_lineno)
            return each_line

        return each_line

    def _rows_of(self, ran: _Ran, module: nn.Module | None) -> set[int]:
        if module is None:
            return ran.others
        known = ran.instances.get(id(module))
        if known is None or known[0]() is not module:
            known = ran.instances[id(module)] = (weakref.ref(module), set())
        return known[1]

    def rows(self, modules: Iterable[nn.Module]) -> dict[str, list[tuple[int, int]]]:
        """For each file the stretches of rows that ran for every one of these modules whose class owns the code.

        Code of no module's class counts where it ran at all. A copy of a module has not run ``__init__`` itself, and is not
        asked to have.
        """
        present = {id(module): module for module in modules}
        owned = {cls: _codes_of(cls) for cls in {type(module) for module in present.values()}}
        by_path: dict[str, set[int]] = {}
        for key, ran in self._ran.items():
            rows = set(ran.others)
            theirs = {
                at: rows for at, (module, rows) in ran.instances.items() if module() is not None and at in present
            }
            expected = {at for at, module in present.items() if key in owned[type(module)]}
            if ran.code.co_name == "__init__" or not expected:
                expected = set(theirs)
            if expected and expected <= set(theirs):
                rows |= set.intersection(*(theirs[at] for at in expected))
            by_path.setdefault(ran.code.co_filename, set()).update(rows)
        return {path: list(_stretches(sorted(rows))) for path, rows in by_path.items() if rows}


def _self_of(frame: FrameType) -> nn.Module | None:
    code = frame.f_code
    if code.co_argcount:
        name = code.co_varnames[0]
    elif "self" in code.co_freevars:
        name = "self"
    else:
        return None
    value = frame.f_locals.get(name)
    return value if isinstance(value, nn.Module) else None


def _codes_of(cls: type) -> set[int]:
    """The code of every method of a class and its bases, and of what is defined inside of them."""
    pending: list[CodeType] = []
    for base in cls.__mro__:
        for value in vars(base).values():
            pending.extend(_codes_in(value))
    identities: set[int] = set()
    while pending:
        code = pending.pop()
        if id(code) not in identities:
            identities.add(id(code))
            pending.extend(inner for inner in code.co_consts if isinstance(inner, CodeType))
    return identities


def _codes_in(value: object) -> Iterator[CodeType]:
    match value:
        case staticmethod() | classmethod():
            value = value.__func__
        case property():
            for part in (value.fget, value.fset, value.fdel):
                if part is not None:
                    yield from _codes_in(part)
            return
    if inspect.isfunction(value):
        yield value.__code__
        if (inner := inspect.unwrap(value)) is not value and inspect.isfunction(inner):
            yield inner.__code__


def _stretches(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = 0
    for row in rows:
        if row == last + 1:
            last = row
            continue
        if last:
            yield first, last
        first = last = row
    if last:
        yield first, last
