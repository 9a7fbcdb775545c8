"""Live targets: from ``path/to/model.py:NAME`` or ``package.module:NAME`` to the model that it names.

A function that yields ``(name, build)`` pairs is a collection of models: ``zoo.py:models[small]`` is one of them.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from torch import nn


class TargetError(Exception):
    """A target that names nothing that could be checked; the message says why."""


class Target(NamedTuple):
    """A live target as it was typed, and its two halves."""

    text: str
    place: str
    """A file, or the dotted name of a module."""
    name: str
    """Dotted: ``Zoo.small``."""
    item: str = ""
    """Which model of a collection; empty for a target that is none."""


class Location(NamedTuple):
    """Where the module of a target is, and how to import it."""

    file: Path | None
    module: str
    folders: tuple[str, ...]
    """What has to be on ``sys.path``, first things first."""
    is_script: bool
    """Whether the file belongs to no package, and is imported by its path."""


def parse(text: str) -> Target | None:
    """The target that a command-line argument names; None for a file or folder."""
    head, item = _split_item(text)
    place, colon, name = head.rpartition(":")
    if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
        return None
    if os.name == "nt" and len(place) == 1 and place.isalpha():
        return None
    return None if Path(text).exists() else Target(text, place, name, item)


_ITEM = re.compile(r"([^\[\]]+)\[([^\[\]]+)\]\Z", re.DOTALL)


def _split_item(text: str) -> tuple[str, str]:
    """A target without the name in brackets at its end, and that name."""
    match = _ITEM.match(text)
    return (text, "") if match is None else (match[1], match[2])


def locate(target: Target, root: Path, folder: Path) -> Location:
    """Find a target's module without importing anything; paths are relative to ``folder``.

    Raises ``TargetError`` where there is none.
    """
    path = Path(os.path.abspath(folder / target.place))  # noqa: PTH100
    if path.is_dir() and (path / "__init__.py").is_file():
        path /= "__init__.py"
    if path.is_file():
        return _of_file(path, root)
    is_path = target.place.endswith((".py", ".pyw")) or "/" in target.place or os.sep in target.place
    if is_path or not all(part.isidentifier() for part in target.place.split(".")):
        raise TargetError(f"{target.text}: no such file: {target.place}")
    return _of_module(target, root, folder)


def _of_file(path: Path, root: Path) -> Location:
    top = path.parent
    parts = [] if path.name == "__init__.py" else [path.stem]
    while (top / "__init__.py").is_file() and top.name.isidentifier():
        parts.insert(0, top.name)
        top = top.parent
    is_script = path.parent == top
    folders = tuple(dict.fromkeys(map(str, (top, root, root / "src"))))
    return Location(path, path.stem if is_script else ".".join(parts), folders, is_script)


def _of_module(target: Target, root: Path, folder: Path) -> Location:
    folders = tuple(dict.fromkeys(map(str, (folder, root, root / "src"))))
    parts = target.place.split(".")
    for base in folders:
        for path in (Path(base, *parts).with_suffix(".py"), Path(base, *parts, "__init__.py")):
            if path.is_file():
                return Location(path, target.place, tuple(dict.fromkeys((base, *folders))), False)
    # Only the folders are looked up: to import a parent package would run the user's code here.
    spec = importlib.util.find_spec(parts[0])
    for count in range(2, len(parts) + 1):
        search_path = None if spec is None else spec.submodule_search_locations
        if search_path is None:
            spec = None
            break
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), search_path)
    if spec is None:
        raise TargetError(
            f"{target.text}: no module named {target.place!r} in {root}, its src, or the installed packages"
        )
    return Location(Path(spec.origin) if spec.has_location and spec.origin else None, target.place, folders, False)


def replace_texts(texts: Mapping[str, str]) -> None:
    """Make imports of files, by their paths, use these texts instead of what the files hold."""
    if not texts:
        return
    instead = {os.path.realpath(path): text for path, text in texts.items()}
    loader = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        text = instead.get(os.path.realpath(self.path))
        if text is None:
            return usual(self, fullname)
        # Without a time of change it is not read again from disk.
        linecache.cache[self.path] = (len(text), None, text.splitlines(keepends=True), self.path)
        return self.source_to_code(text, self.path)

    setattr(loader, "get_code", get_code)  # noqa: B010


def load(location: Location) -> ModuleType:
    """Import a target's module. Raises whatever its code raises, and ``TargetError`` where another module has its name."""
    for folder in reversed(location.folders):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    if not location.is_script:
        module = importlib.import_module(location.module)
        imported = getattr(module, "__file__", None)
        if location.file is not None and imported is not None and not Path(imported).samefile(location.file):
            raise TargetError(f"{location.file}: importing {location.module!r} gives another file, {imported}")
        return module
    # A file called like a module that is already imported must not take its place.
    name = location.module if location.module not in sys.modules else f"_{location.module}_target"
    spec = importlib.util.spec_from_file_location(name, str(location.file))
    if spec is None or spec.loader is None:
        is_notebook = str(location.file).endswith(".ipynb")
        way = "; in the notebook: %load_ext modellint, then %modellint MODEL, INPUTS" if is_notebook else ""
        raise TargetError(f"{location.file}: not a Python file{way}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def find(module: ModuleType, target: Target) -> Any:
    """What a target names in its module: a subclass or an instance of ``nn.Module``, or a function. Raises ``TargetError``."""
    from torch import nn

    value: Any = module
    for done, part in enumerate(target.name.split(".")):
        try:
            value = getattr(value, part)
        except AttributeError:
            inside = target.place if done == 0 else ".".join(target.name.split(".")[:done])
            raise TargetError(f"{target.text}: no {part!r} in {inside}{_nearest(part, value)}") from None
    if isinstance(value, nn.Module) or (inspect.isclass(value) and issubclass(value, nn.Module)):
        return value
    if callable(value) and not inspect.isclass(value):
        return value
    what = "a class that is no nn.Module" if inspect.isclass(value) else f"of type {type(value).__name__}"
    raise TargetError(
        f"{target.text}: {target.name} is {what}; a target is an nn.Module class, an instance of one, or a function that "
        "returns a module or (module, example_inputs)"
    )


Pair: TypeAlias = tuple[str, Callable[[], Any]]
"""A model of a collection: its name, and the function that builds it."""


def pairs(named: Any, target: Target) -> Iterator[Pair]:
    """The models of a collection, in its order. Raises whatever its code raises, and ``TargetError`` for what is no collection."""
    models = named() if is_collection(named) else None
    if not isinstance(models, Iterator):
        raise TargetError(
            f"{target.text}: {target.name} yields no models; `[…]` names one of those that a function yields"
        )
    for value in models:
        match value:
            case (str() as name, build) if callable(build):
                yield name, build
            case _:
                what = f"a value of type {type(value).__name__}"
                raise TargetError(
                    f"{target.text}: {target.name} yields {what}, and not a pair of a name and a function"
                )


def is_collection(named: Any) -> bool:
    """Whether a target is a function that yields its models."""
    return inspect.isgeneratorfunction(inspect.unwrap(named)) if callable(named) else False


def item(named: Any, target: Target) -> Callable[[], Any]:
    """The function that builds one model of a collection. Raises as ``pairs`` does, and ``TargetError`` where there is none."""
    known = []
    for name, build in pairs(named, target):
        if name == target.item:
            return build
        known.append(name)
    raise TargetError(f"{target.text}: {target.name} yields no {target.item!r}{_near(target.item, known)}")


def _nearest(name: str, owner: object) -> str:
    return _near(name, list(_candidates(owner)))


def _near(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, 3, 0.5)
    by_case = [candidate for candidate in known if candidate.lower() == name.lower()]
    if suggestions := list(dict.fromkeys((*by_case, *near))):
        return f"; did you mean {' or '.join(map(repr, suggestions))}?"
    return f"; it has {', '.join(known[:8])}" if known else ""


def _candidates(owner: object) -> Iterator[str]:
    """The public names in a module or class that could be targets, its own before what it imports."""
    from torch import nn

    home = getattr(owner, "__name__", None)
    later: list[str] = []
    for name, value in list(vars(owner).items()):
        is_module = isinstance(value, nn.Module) or (inspect.isclass(value) and issubclass(value, nn.Module))
        if name.startswith("_") or not (is_module or inspect.isroutine(value) or isinstance(value, staticmethod)):
            continue
        if isinstance(value, nn.Module) or not inspect.ismodule(owner) or getattr(value, "__module__", home) == home:
            yield name
        else:
            later.append(name)
    yield from later


def pair(target: Target, result: Any) -> tuple[nn.Module, Any]:
    """A function's result as a module and its example inputs, None where it gave none. Raises ``TargetError``."""
    from torch import nn

    match result:
        case nn.Module():
            return result, None
        case (nn.Module() as model, inputs):
            return model, inputs
        case Iterator():
            raise TargetError(
                f"{target.text}: {target.name}() yields several models: name one, as in '{target.text}[NAME]', or give all of them "
                "to modellint sweep"
            )
        case tuple() | list():
            what = f"({', '.join(type(part).__name__ for part in result)})"
        case _:
            what = f"a value of type {type(result).__name__}"
    raise TargetError(f"{target.text}: {target.name}() returned {what}, not a module or (module, example_inputs)")
