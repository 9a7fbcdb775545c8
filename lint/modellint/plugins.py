"""Plug-ins, rules by others: which of those that are named may run, where they are, and the rules in them.

A plug-in is code that runs with the user's rights. It runs if the user names it, on the command line or in settings of the
user's own, and never because a folder that is checked holds or names it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modellint.rule import RuleError
from modellint.settings import SettingsError, read_table, user_file

if TYPE_CHECKING:
    from types import ModuleType

    from modellint.rule import Rule
    from modellint.settings import Settings

GROUP = "modellint.rules"
"""The entry points by which installed packages offer rules."""
_BELOW = "/*"
"""The end of a trusted path for which all folders below it are trusted, as in git's ``safe.directory``."""


class PluginError(RuleError):
    """A plug-in that cannot be used; the message names it, its file, and what to do."""


class Plugin(NamedTuple):
    """A plug-in that may run, and where it is; the same in every process of a run."""

    name: str
    """As it was named."""
    origin: str
    """Who named it: the option, or a settings file."""
    path: Path | None = None
    """Its folder or file; None for what is installed."""
    module: str = ""
    """Its installed module or package."""
    checked: tuple[Path, ...] = ()
    """Folders that are checked: what lies in them is not installed, though Python may be able to import it."""

    def __str__(self) -> str:
        return f"plug-in {self.name!r} ({self.origin})"


class Chosen(NamedTuple):
    """The plug-ins of a run: those that may run, and the names of those that a repository asks for in vain."""

    plugins: tuple[Plugin, ...] = ()
    left_out: tuple[str, ...] = ()
    asking: str = ""
    """The settings file that names those that are left out."""
    ignored: str = ""
    """What is said of a file of the user's that does not count."""

    @property
    def warnings(self) -> list[str]:
        """What the user is told of it."""
        told = [self.ignored] if self.ignored else []
        if self.left_out:
            where = user_file()
            told.append(
                f"{self.asking} names plug-ins, which are code, and nobody here asked for them; left out: "
                f"{', '.join(self.left_out)}; --trust-plugins loads them"
                + (f", or `[trust]` in {where}" if where else "")
            )
        return told


class UserSettings(NamedTuple):
    """The settings of the user's own, which lie outside of all repositories."""

    file: Path | None = None
    plugins: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    """The repositories whose settings may name plug-ins."""

    def trusts(self, root: Path) -> bool:
        """Whether a repository is listed, or lies below a folder that is listed with ``/*`` behind it."""
        place = os.path.realpath(root)
        for path in self.trusted:
            folder = os.path.realpath(path.removesuffix(_BELOW) or "/")
            inside = path.endswith(_BELOW) and Path(place).is_relative_to(folder)
            if place == folder or inside:
                return True
        return False


def user_settings() -> UserSettings:
    """Read the user's own settings. Raises ``SettingsError``."""
    file = user_file()
    if file is None or not os.path.isfile(file):  # noqa: PTH113
        return UserSettings()
    table = read_table(file)
    for key in table:
        if key not in ("plugins", "trust"):
            raise SettingsError(
                f"{file}: {key!r} has no place here: of the user's own settings there are `plugins` and `[trust]`"
            )
    trust = table.get("trust", {})
    if not isinstance(trust, dict) or not {*trust} <= {"paths"}:
        raise SettingsError(f"{file}: [trust] must be a table with the key `paths`")
    paths = tuple(os.path.expanduser(path) for path in _words(file, "trust, paths", trust.get("paths", [])))  # noqa: PTH111
    for path in paths:
        if not Path(path).is_absolute():
            raise SettingsError(f"{file}: trust, paths: {path!r} is not absolute; it may begin with ~")
    return UserSettings(file, _words(file, "plugins", table.get("plugins", [])), paths)


def _words(file: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise SettingsError(f"{file}: {key} must be a list of strings")
    return tuple(value)


def choose(
    settings: Settings, root: Path, named: Iterable[str] = (), *, trusts: bool = False, isolated: bool = False
) -> Chosen:
    """Decide which plug-ins may run: those ``named`` on the command line, the user's own, and a trusted repository's.

    ``settings`` are those of the root. Nothing of any plug-in runs here. Raises ``PluginError`` and ``SettingsError``.
    """
    user = UserSettings() if isolated else user_settings()
    ignored = ""
    if user.file is not None and _is_below(str(user.file), (root,)):
        ignored = f"{user.file} lies in what is checked, and is nobody's own; ignored"
        user = UserSettings()
    left_out: tuple[str, ...] = ()
    asking = settings.origins.get("plugins", "")
    wanted = [(name, Path.cwd(), "--plugin") for name in named]
    wanted += [(name, user.file.parent, str(user.file)) for name in user.plugins if user.file is not None]
    if settings.plugins and (trusts or user.trusts(root)):
        wanted += [(name, settings.base_of("plugins"), asking) for name in settings.plugins]
    else:
        left_out = settings.plugins
    checked = (root, Path.cwd()) if wanted else ()
    # What is named twice is one plug-in.
    located = {
        (plugin.path, plugin.module): plugin for plugin in (_located(*each, checked) for each in reversed(wanted))
    }
    known = {name for name, _, _ in wanted}
    return Chosen(
        tuple(reversed(located.values())), tuple(name for name in left_out if name not in known), asking, ignored
    )


def locate(name: str) -> Plugin:
    """The plug-in that the user means by a name on the command line. Raises ``PluginError``."""
    return _located(name, Path.cwd(), "--plugin", (Path.cwd(),))


def _located(name: str, base: Path, origin: str, checked: tuple[Path, ...]) -> Plugin:
    """Find a plug-in by its name: an entry point, an installed module, or a folder or file. Nothing of it runs."""
    if not name.strip():
        raise PluginError(f"{origin}: a plug-in without a name")
    plugin = Plugin(name, origin, checked=checked)
    if not _is_path(name):
        offers = [offer for offer in installed(checked) if offer.name == name]
        if len({offer.module for offer in offers}) > 1:
            packages = " and ".join(offer.package for offer in offers)
            raise PluginError(f"{plugin}: {packages} both offer it; write the module: {offers[0].module}")
        if offers:
            # Who installed a link to a folder wants what lies there, also while it is checked.
            source = offers[0].source
            others = tuple(
                folder
                for folder in checked
                if not source or not (_is_below(source, (folder,)) or _is_below(str(folder), (Path(source),)))
            )
            return plugin._replace(module=offers[0].module, checked=others)
        if _is_importable(name, checked):
            return plugin._replace(module=name)
    path = base / os.path.expanduser(name)  # noqa: PTH111
    if path.is_dir() or (path.suffix == ".py" and path.is_file()):
        return plugin._replace(path=path)
    offered = ", ".join(sorted({offer.name for offer in installed(checked)}))
    raise PluginError(
        f"{plugin} is not there: no folder or Python file {path}"
        + ("" if _is_path(name) else f", and nothing installed is called so (installed plug-ins: {offered or 'none'})")
    )


def _is_path(name: str) -> bool:
    return name.startswith((".", "~")) or name.endswith(".py") or "/" in name or "\\" in name


class Offer(NamedTuple):
    """An entry point of an installed package."""

    name: str
    module: str
    package: str
    """The package that offers it, with its version."""
    source: str = ""
    """The folder that it was installed as a link to; empty for a copy."""


def installed(checked: tuple[Path, ...] = ()) -> list[Offer]:
    """The plug-ins that installed packages offer, by name; nothing of them runs.

    A package whose metadata lies in a folder that is checked counts only if that is where this Python has its packages.
    """
    from importlib.metadata import distributions

    offers: dict[tuple[str, str], Offer] = {}
    for package in distributions(path=_search_path(checked)):
        for entry in package.entry_points:
            if entry.group == GROUP:
                title = f"{package.metadata['Name']} {package.version}"
                module = entry.value.partition(":")[0].strip()
                offer = Offer(entry.name, module, title, _linked_folder(package.read_text("direct_url.json")))
                offers.setdefault((offer.name, offer.package.partition(" ")[0]), offer)
    return sorted(offers.values())


def _linked_folder(url: str | None) -> str:
    """The folder of source that an editable installation stands for, by its ``direct_url.json``; empty for a copy."""
    if url is None or "editable" not in url:
        return ""
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        told = json.loads(url)
        return url2pathname(urlsplit(told["url"]).path) if told["dir_info"]["editable"] else ""
    except (ValueError, LookupError, TypeError):
        return ""


def _is_importable(name: str, checked: tuple[Path, ...]) -> bool:
    """Whether an installed module has that name. Of a dotted name the packages around it are imported."""
    from importlib.util import find_spec

    words = name.split(".")
    if not all(word.isidentifier() for word in words) or words[0] in sys.stdlib_module_names:
        return False
    with _imports_from(_search_path(checked)):
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            return False
        except Exception as error:
            raise PluginError(f"plug-in {name!r} cannot be loaded: {_told(error)}") from None
    # A folder without __init__.py is a package for Python, wherever it is.
    return spec is not None and spec.origin is not None and not _is_below(spec.origin, checked)


def _search_path(checked: tuple[Path, ...]) -> list[str]:
    """Where installed modules are: ``sys.path`` without what is checked and the current folder."""
    return [place for place in sys.path if Path(place).is_absolute() and not _is_below(place, checked)]


def _is_below(place: str, folders: tuple[Path, ...]) -> bool:
    """Whether a place lies in one of the folders, and not where this Python has its modules, as in an environment in the folder."""
    real = Path(os.path.realpath(place))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders) and not any(
        real.is_relative_to(own) for own in _python_folders()
    )


@cache
def _python_folders() -> tuple[str, ...]:
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    folders = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    if hasattr(site, "getsitepackages"):
        folders += site.getsitepackages()
    return tuple(map(os.path.realpath, folders))


@contextlib.contextmanager
def _imports_from(path: list[str]) -> Iterator[None]:
    """Let Python look for modules in these places alone."""
    before = sys.path[:]
    sys.path[:] = path
    try:
        yield
    finally:
        sys.path[:] = before


def rules(plugins: Iterable[Plugin]) -> dict[str, Rule]:
    """The rules of all plug-ins together with modellint's own, by code. Runs the plug-ins' code.

    Raises ``RuleError`` for what cannot be loaded, a rule that nobody would ever ask, and a code that another rule has.
    """
    from modellint.rule import admit, clash, rules_of
    from modellint.rule_index import shipped_rules
    from modellint.tool_diagnostics import machine_rules

    known = {**shipped_rules(), **machine_rules()}
    named = {rule.name: rule for rule in known.values()}
    for plugin in plugins:
        try:
            with _imports_from(_search_path(plugin.checked)):
                kinds = [kind for package in _packages(plugin) for kind in rules_of(package)]
        except (Exception, SystemExit) as error:
            raise PluginError(f"{plugin} cannot be loaded: {_told(error)}; mend it, or leave it out") from None
        if not kinds:
            where = f"; if you mean the folder, write ./{plugin.name}" if plugin.path is None else ""
            raise PluginError(
                f"{plugin} has no rule: {plugin.path or plugin.module} holds no class with a `code` that derives from "
                f"modellint.authoring.Rule{where}"
            )
        for kind in dict.fromkeys(kinds):
            try:
                rule = admit(kind, known)
                if rule.name in named:
                    raise clash(kind, named[rule.name], "name")
                named[rule.name] = rule
                rule.plugin = plugin.name
            except (Exception, SystemExit) as error:
                raise PluginError(f"{plugin}: {_told(error)}") from None
    return dict(sorted(known.items()))


def _packages(plugin: Plugin) -> list[ModuleType]:
    """Import a plug-in: its installed package, its file, or a package of the files in its folder."""
    import importlib
    import importlib.util
    from hashlib import sha256
    from types import ModuleType

    if plugin.path is None:
        return [importlib.import_module(plugin.module)]
    path = plugin.path.absolute()
    # Another folder of that name is another plug-in.
    name = f"modellint_plugin_{path.stem}_{sha256(os.fsencode(path)).hexdigest()[:8]}"
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[known]
    importlib.invalidate_caches()
    start = path / "__init__.py" if path.is_dir() else path
    if path.is_dir() and not start.is_file():
        package = ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package
        return [package]
    places = [str(path)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, start, submodule_search_locations=places)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return [module]


def _told(error: BaseException) -> str:
    """An exception of a plug-in's code, and the line where it was raised."""
    from modellint.tool_diagnostics import described, raised_at

    if isinstance(error, RuleError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}"
    return f"{described(error)} ({raised_at(error)})"


def files(plugins: Iterable[Plugin]) -> list[Path]:
    """The folders and files that loaded plug-ins consist of, by whose contents results may be kept."""
    places: list[Path] = []
    for plugin in plugins:
        module = sys.modules.get(plugin.module)
        if plugin.path is not None:
            places.append(plugin.path)
        elif module is not None:
            places += map(Path, getattr(module, "__path__", None) or [module.__file__ or os.devnull])
    return places
