"""Flags and settings files to one frozen ``Settings`` for each folder that files are checked in."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple

ALWAYS = frozenset({"LNT002", "LNT003", "LNT004", "LNT005"})
"""Rules that no selection turns off: without them a file that was not parsed, run or read in full would pass for a clean one."""
LEVELS = ("info", "warning", "error", "never")
RUNTIMES: Mapping[str, str] = {"coreml": "Core ML", "coreai": "Core AI"}
"""The destinations that there are, each with what verdicts call it."""
DESTINATIONS = (*RUNTIMES, "all")
OF_COREML = ("deployment-target", "coreml-version", "frontend", "precision")
"""Keys that say nothing of another destination."""
OF_COREAI = ("coreai-version",)
"""The same for Core AI."""
FRONTENDS = ("auto", "trace", "export")
PRECISIONS = ("fp16", "fp32")
FORMATS = (
    "full",
    "concise",
    "grouped",
    "json",
    "json-lines",
    "report",
    "pylint",
    "github",
    "gitlab",
    "junit",
    "sarif",
    "html",
)

_PARTING_BACKSLASH = re.compile(r"\\\w")
_LISTS = ("select", "ignore", "extend-select", "exclude", "module-bases", "plugins")
_WORDS = (
    "fail-level",
    "docs-url",
    "output-format",
    "deployment-target",
    "coreml-version",
    "coreai-version",
    "prelu-import",
    "precision",
    "frontend",
    "baseline",
    "extend",
    "destination",
)
KEYS = (*_LISTS, "per-file-ignores", *_WORDS, "models")
"""Every key of a settings file."""
MODEL_KEYS = ("target", "inputs", "checkpoint")
"""Every key of one of the ``models``."""
_SELECTOR = re.compile(r"[A-Z]{1,3}\Z|[A-Z]{3}[0-9]{1,3}\Z")
_SELECTORS = ("select", "ignore", "extend-select")
_ADDED = ("ignore", "extend-select")
"""What a file adds to what the one says that it extends, unless it selects anew."""


_GENERATIONS = {
    "iOS": (15, 16, 17, 18, 26),
    "macOS": (12, 13, 14, 15, 26),
    "watchOS": (8, 9, 10, 11, 26),
    "tvOS": (15, 16, 17, 18, 26),
}
TARGETS = {
    f"{system}{number}": ios
    for system, numbers in _GENERATIONS.items()
    for number, ios in zip(numbers, _GENERATIONS["iOS"], strict=True)
}
"""What coremltools takes for a deployment target that can hold an ML Program, each with the iOS of its year."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "fail-level": LEVELS,
    "output-format": FORMATS,
    "deployment-target": tuple(TARGETS),
    "precision": PRECISIONS,
    "frontend": FRONTENDS,
    "destination": DESTINATIONS,
}
"""The keys that take one word of a few."""


class SettingsError(Exception):
    """Settings that cannot be used; the message names the file or option, and what to do."""


class Destination(NamedTuple):
    """The destination of a model, on which its findings depend.

    ``target`` is a key of ``TARGETS``, by default what `ct.convert` takes by itself; ``coremltools`` the version of it that
    converts, None for the newest that the operator table knows; ``precision`` is ``fp16`` or ``fp32``,
    ``frontend`` how it is captured: ``auto``, ``trace`` or ``export``.
    """

    target: str = "iOS15"
    coremltools: str | None = None
    precision: str = "fp16"
    frontend: str = "auto"
    name: str = "coreml"
    """The package in ``modellint.destinations`` that answers for it."""
    coreai_torch: str | None = None
    """The version of the converter for Core AI, None for the newest known."""

    @property
    def ios(self) -> int:
        """The iOS whose operations the target has."""
        return TARGETS[self.target]

    @property
    def converter(self) -> str:
        """What converts, with the version that the tables are of."""
        if self.name == "coreai":
            from modellint.data import coreai_operators

            return f"coreai-torch {coreai_operators.known_version(self.coreai_torch)}"
        from modellint.data.operator_conversion import version_shown

        return f"coremltools {version_shown(self.coremltools)}"

    def missing_operators(self, name: str) -> tuple[str, ...]:
        """The operators without a converter that each use of a function, method or layer of torch runs, by any route."""
        if self.name == "coreai":
            from modellint.data.coreai_operators import missing_operators

            return missing_operators(name, self.coreai_torch)
        from modellint.data.operator_conversion import operator

        row = operator(name, self.coremltools)
        return () if row is None or row.converts else (row.kind,)

    def refusal(self, name: str) -> str | None:
        """What a converter of one route says of a function, method or layer of torch that it refused in every use that was tried."""
        from modellint.data import coreai_operators

        return coreai_operators.refusal(name) if self.name == "coreai" else None

    def is_supplied(self, name: str) -> bool:
        """Whether an export by one route is known to convert some use of a function, method or layer that its converter does not."""
        from modellint.data import coreai_operators

        return self.name == "coreai" and coreai_operators.is_supplied(name)

    @property
    def words_of_refused(self) -> frozenset[str]:
        """Trigger words of these."""
        from modellint.data import coreai_operators

        return coreai_operators.words_of_refused() if self.name == "coreai" else frozenset()

    @property
    def words_of_missing(self) -> frozenset[str]:
        """Trigger words: code with an operator that some route has no converter for holds one of them."""
        if self.name == "coreai":
            from modellint.data import coreai_operators

            return coreai_operators.words_of_missing(self.coreai_torch)
        from modellint.data.operator_conversion import words_of_missing

        return words_of_missing(self.coremltools)


class Model(NamedTuple):
    """One ``[[tool.modellint.models]]``: a live target, its inputs as ``--input`` takes them, and a checkpoint.

    Paths in it are relative to the folder of the settings file.
    """

    target: str
    inputs: tuple[str, ...] = ()
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force for some files, and where each came from.

    ``select`` is None until the user selects something: then every rule runs that is on by default. ``base`` is the folder
    that paths and patterns are relative to, but for those keys that ``bases`` has another folder for.
    """

    base: Path
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    fail_level: str = "warning"
    module_bases: tuple[str, ...] = ()
    docs_url: str | None = None
    plugins: tuple[str, ...] = ()
    output_format: str = "full"
    prelu_import: str | None = None
    """The module that fixes import ``CustomPReLU`` from; None: they write the class."""
    deployment_target: str = "iOS15"
    coreml_version: str | None = None
    coreai_version: str | None = None
    precision: str = "fp16"
    frontend: str = "auto"
    destination: str = "coreml"
    """A name of ``RUNTIMES``, or ``all``."""
    models: tuple[Model, ...] = ()
    """The live targets that ``--models`` checks."""
    baseline: str | None = None
    """The file of findings that are not reported."""
    extend: str | None = None
    """The settings file that this one adds to."""
    config: Path | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    bases: Mapping[str, Path] = field(default_factory=dict)

    def base_of(self, key: str) -> Path:
        """The folder that the paths or patterns of a key are relative to."""
        return self.bases.get(key, self.base)

    def value(self, key: str) -> Any:
        """The value of a key as a settings file spells it."""
        return getattr(self, key.replace("-", "_"))

    @property
    def goals(self) -> tuple[Destination, ...]:
        """Where models are to go."""
        names = tuple(RUNTIMES) if self.destination == "all" else (self.destination,)
        words = self.deployment_target, self.coreml_version, self.precision, self.frontend
        return tuple(Destination(*words, name, self.coreai_version) for name in names)

    @property
    def goal(self) -> Destination:
        """Where models are to go first."""
        return self.goals[0]

    def enables(self, code: str, default: bool = True) -> bool:
        """Whether a rule runs: of all selectors that match its code the longest decides, ``ignore`` in a tie.

        Those of ``ALWAYS`` run whatever is selected, and only ``ignore`` can silence them.
        """
        chosen = [*(self.select or ()), *self.extend_select]
        wanted = max((_strength(selector, code) for selector in chosen), default=-1)
        if (self.select is None and default) or code in ALWAYS:
            wanted = max(wanted, 0)
        unwanted = max((_strength(selector, code) for selector in self.ignore), default=-1)
        return wanted > unwanted

    def ignored_in(self, path: Path) -> tuple[str, ...]:
        """Selectors that ``per-file-ignores`` names for a file."""
        if not self.per_file_ignores:
            return ()
        try:
            relative = path.relative_to(self.base_of("per-file-ignores")).as_posix()
        except ValueError:
            relative = path.as_posix()
        selectors: list[str] = []
        for pattern, codes in self.per_file_ignores:
            negated = pattern.startswith("!")
            if matches(pattern.removeprefix("!"), relative) != negated:
                selectors.extend(codes)
        return tuple(selectors)


def check_patterns(patterns: Iterable[str], where: str) -> None:
    """Raise ``SettingsError`` for a backslash that is meant to part folders: in .gitignore it takes a meaning from what follows."""
    for pattern in patterns:
        if _PARTING_BACKSLASH.search(pattern):
            right = pattern.replace("\\", "/")
            raise SettingsError(f"{where}: {pattern!r}: folders are parted by /, on Windows too; write {right!r}")


def matches(pattern: str, relative: str) -> bool:
    """Whether a path matches a pattern written as in .gitignore."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines([pattern]).match_file(relative)


def _strength(selector: str, code: str) -> int:
    if selector == "ALL":
        return 0
    return len(selector) if code.startswith(selector) else -1


def check_codes(selectors: Iterable[str], codes: Collection[str], where: str) -> None:
    """Raise ``SettingsError`` for a selector that matches no rule."""
    for selector in selectors:
        if selector != "ALL" and not (selector and any(code.startswith(selector) for code in codes)):
            known = sorted({*codes, *(code[:3] for code in codes), "ALL"})
            raise SettingsError(f"{where}: unknown rule code {selector!r}{_nearest(selector, known)}")


def check_version(version: str, where: str) -> None:
    """Raise ``SettingsError`` for a version of coremltools that the operator table cannot speak of."""
    from modellint.data.operator_conversion import UnknownVersion, table_version

    try:
        table_version(version)
    except UnknownVersion as error:
        raise SettingsError(f"{where}: {error}") from None


def check_coreai_version(version: str, where: str) -> None:
    """Raise ``SettingsError`` for a version of coreai-torch that the operator table cannot speak of."""
    from modellint.data.coreai_operators import UnknownVersion, known_version

    try:
        known_version(version)
    except UnknownVersion as error:
        raise SettingsError(f"{where}: {error}") from None


def _nearest(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def find_config(folder: Path, known: MutableMapping[Path, Path | None] | None = None) -> Path | None:
    """The nearest settings file at or above a folder: modellint.toml, or a pyproject.toml with ``[tool.modellint]``.

    ``known`` holds what was found for folders so far.
    """
    known = {} if known is None else known
    passed: list[Path] = []
    found = None
    for place in (folder, *folder.parents):
        if place in known:
            found = known[place]
            break
        passed.append(place)
        found = _config_in(place)
        if found is not None:
            break
    known.update(dict.fromkeys(passed, found))
    return found


def _config_in(folder: Path) -> Path | None:
    own = folder / "modellint.toml"
    if os.path.isfile(own):  # noqa: PTH113
        return own
    shared = folder / "pyproject.toml"
    return shared if os.path.isfile(shared) and b"tool.modellint" in _bytes(shared) else None  # noqa: PTH113


def user_file() -> Path | None:
    """The file of the user's own settings, which need not exist: in ``$XDG_CONFIG_HOME`` or ``~/.config``, on Windows in ``%APPDATA%``."""
    if sys.platform == "win32":
        base = os.environ.get("APPDATA", "")
    else:
        base = os.environ.get("XDG_CONFIG_HOME", "")
        if not Path(base).is_absolute():
            base = os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(base, "modellint", "modellint.toml") if Path(base).is_absolute() else None


def find_root(target: Path) -> Path:
    """The root of a run: the nearest ancestor with modellint.toml, pyproject.toml or .git, else the folder given."""
    folder = target if os.path.isdir(target) else target.parent  # noqa: PTH112
    for place in (folder, *folder.parents):
        if any(os.path.exists(place / name) for name in ("modellint.toml", "pyproject.toml", ".git")):  # noqa: PTH110
            return place
    return folder


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None


def read_table(path: Path) -> dict[str, Any]:
    """What a TOML file holds. Raises ``SettingsError``."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(_bytes(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def read_config(path: Path, codes: Collection[str] | None = None, extending: tuple[Path, ...] = ()) -> Settings:
    """The settings of one file, and of those that it extends. Raises ``SettingsError``.

    Codes are checked when ``codes`` are given, those of a file that names plug-ins by their form alone. ``extending`` are the
    files that extend this one.
    """
    data = read_table(path)
    table = data if path.name != "pyproject.toml" else data.get("tool", {}).get("modellint", {})
    if path.name == "modellint.toml" and isinstance(data.get("tool"), dict):
        raise SettingsError(f"{path}: keys stand at the top of modellint.toml, not in [tool.modellint]")
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: [tool.modellint] is not a table")
    values: dict[str, Any] = {}
    for key, value in table.items():
        values[key.replace("-", "_")] = _checked(path, key, value)
    settings = Settings(path.parent, config=path, origins=dict.fromkeys(table, str(path)), **values)
    if codes is not None:
        check_settings(settings, codes, str(path), bool(settings.plugins))
    return settings if settings.extend is None else _extended(settings, path, codes, extending)


def _extended(own: Settings, path: Path, codes: Collection[str] | None, extending: tuple[Path, ...]) -> Settings:
    """The settings of a file on top of those of the file that it extends.

    A key of its own replaces the other's; codes that are ignored or added to the selection are added, unless it selects anew.
    """
    assert own.extend is not None
    name = os.path.expandvars(os.path.expanduser(own.extend))  # noqa: PTH111
    base_file = Path(os.path.normpath(path.parent / name))
    chain = (*extending, path)
    if base_file in chain:
        raise SettingsError(
            f"{path}: extend: a circle: {' extends '.join(map(str, (*chain[chain.index(base_file) :], base_file)))}"
        )
    if not base_file.is_file():
        raise SettingsError(f"{path}: extend: there is no settings file {base_file}")
    base = read_config(base_file, codes, chain)
    values: dict[str, Any] = {}
    origins = dict(own.origins)
    bases = dict(own.bases)
    for key, origin in base.origins.items():
        attribute = key.replace("-", "_")
        if key in _ADDED and own.select is not None:
            continue
        if key not in own.origins:
            values[attribute], origins[key] = getattr(base, attribute), origin
            bases[key] = base.base_of(key)
        elif key in _ADDED:
            values[attribute] = (*getattr(base, attribute), *getattr(own, attribute))
            origins[key] = f"{origin}, {own.origins[key]}"
    return replace(own, origins=origins, bases=bases, **values)


def check_settings(settings: Settings, codes: Collection[str], where: str, tolerant: bool = False) -> None:
    """Raise ``SettingsError`` for a code that no rule has; with ``tolerant`` it may be that of a rule that is not loaded."""
    for key in _SELECTORS:
        check_codes(_strict(settings.value(key) or (), tolerant), codes, f"{where}: {key}")
    for pattern, selectors in settings.per_file_ignores:
        check_codes(_strict(selectors, tolerant), codes, f"{where}: per-file-ignores, {pattern!r}")


def _strict(selectors: Iterable[str], tolerant: bool) -> list[str]:
    """The selectors that have to be known: all, or, if ``tolerant``, those that cannot be the code of any rule."""
    return [selector for selector in selectors if not (tolerant and _SELECTOR.match(selector))]


def _checked(path: Path, key: str, value: object) -> Any:
    if key not in KEYS:
        raise SettingsError(f"{path}: unknown key {key!r}{_nearest(key, KEYS)}")
    if key in _SELECTORS:
        return _codes(path, key, value)
    if key in _LISTS:
        words = _words(path, key, value)
        if key == "exclude":
            check_patterns(words, f"{path}: exclude")
        return words
    if key == "per-file-ignores":
        if not isinstance(value, dict):
            raise SettingsError(f"{path}: per-file-ignores must be a table of patterns to lists of codes")
        check_patterns(value, f"{path}: per-file-ignores")
        return tuple((pattern, _codes(path, f"{key}, {pattern!r}", codes)) for pattern, codes in value.items())
    if key == "models":
        return _models(path, value)
    if not isinstance(value, str):
        raise SettingsError(f"{path}: {key} must be a string")
    if key == "coreml-version":
        check_version(value, f"{path}: {key}")
    if key == "coreai-version":
        check_coreai_version(value, f"{path}: {key}")
    choices = CHOICES.get(key)
    if choices is not None and value not in choices:
        raise SettingsError(f"{path}: {key} must be one of {', '.join(choices)}, not {value!r}")
    if key == "prelu-import" and not all(map(_is_name, value.split("."))):
        raise SettingsError(f"{path}: {key} must be the dotted name of a module, not {value!r}")
    return value


def _models(path: Path, value: object) -> tuple[Model, ...]:
    tables = value if isinstance(value, list) else [value]
    if not all(isinstance(table, dict) for table in tables):
        raise SettingsError(
            f"{path}: models must be tables, each under [[tool.modellint.models]] with {', '.join(MODEL_KEYS)}"
        )
    models = []
    for number, table in enumerate(tables, 1):
        where = f"models, table {number}"
        for key in table:
            if key not in MODEL_KEYS:
                raise SettingsError(f"{path}: {where}: unknown key {key!r}{_nearest(key, MODEL_KEYS)}")
        target, checkpoint = table.get("target"), table.get("checkpoint")
        if target is None:
            raise SettingsError(f"{path}: {where} has no target, such as 'model.py:Net'")
        for key in ("target", "checkpoint"):
            if not isinstance(table.get(key, ""), str):
                raise SettingsError(f"{path}: {where}: {key} must be a string")
        inputs = _words(path, f"{where}: inputs", table.get("inputs", []))
        models.append(Model(target, inputs, checkpoint))
    return tuple(models)


def _is_name(word: str) -> bool:
    return word.isidentifier() and not iskeyword(word)


def _words(path: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f"{path}: {key} must be a list of strings")
    return tuple(value)


def _codes(path: Path, key: str, value: object) -> tuple[str, ...]:
    return tuple(word.upper() for word in _words(path, key, value))


class Resolver:
    """Finds the settings of each folder once: the nearest file's, with the command line's values on top."""

    def __init__(
        self,
        root: Path,
        config: Path | None,
        isolated: bool,
        overrides: Mapping[str, Any],
        codes: Collection[str] | None,
    ) -> None:
        self.root = root
        self.warnings: list[str] = []
        self.tolerant = False
        """Whether the top's codes may be those of plug-ins that are not loaded."""
        self._fixed = config
        self._isolated = isolated
        self._overrides = overrides
        self._codes = codes
        self._folders: dict[Path, Settings] = {}
        self._configs: dict[Path, Path | None] = {}
        self._places: dict[str, Settings] = {}
        self._files: dict[Path | None, Settings] = {}
        self.top = self.of_folder(root)

    def use_codes(self, codes: Collection[str]) -> None:
        """Check every code from now on, and those read so far."""
        # Rules themselves would have to go to other processes with it.
        self._codes = frozenset(codes)
        for settings in self._files.values():
            check_settings(settings, codes, str(settings.config or "settings"), self.tolerant)

    def of_folder(self, folder: Path) -> Settings:
        """The settings for files in a folder."""
        settings = self._folders.get(folder)
        if settings is None:
            config = self._fixed
            if config is None and not self._isolated:
                config = find_config(folder, self._configs)
            settings = self._folders[folder] = self._of_config(config)
        return settings

    def of_file(self, path: Path) -> Settings:
        """The settings for a file."""
        # By text, as thousands are asked about.
        place = str(path).rpartition(os.sep)[0]
        settings = self._places.get(place)
        if settings is None:
            settings = self._places[place] = self.of_folder(path.parent)
        return settings

    def _of_config(self, config: Path | None) -> Settings:
        if config not in self._files:
            base = read_config(config, self._codes) if config is not None else Settings(self.root)
            if base.plugins and config is not None and self._fixed is None and config.parent != self.root:
                self.warnings.append(f"{config}: plugins count only in the settings of {self.root}; ignored")
                base = replace(base, plugins=())
            if base.origins.get("baseline") == str(config) and self._fixed is None and base.base != self.root:
                self.warnings.append(f"{config}: a baseline counts only in the settings of {self.root}; ignored")
            origins = dict(base.origins)
            bases = dict(base.bases)
            values: dict[str, Any] = {}
            for key, (value, origin) in self._overrides.items():
                name = key.replace("-", "_")
                values[name] = (*getattr(base, name), *value) if key == "extend-select" else value
                origins[key] = origin
                # What is typed is relative to where it is typed.
                bases[key] = Path.cwd()
            self._files[config] = replace(base, origins=origins, bases=bases, **values)
        return self._files[config]
