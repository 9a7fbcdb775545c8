"""Output formats of ``modellint check``: a function each, from the results of a run to text, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modellint.run import UsageError

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Conversion
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.model_report import ModelReport
    from modellint.rule import Rule
    from modellint.source.syntax.source_text import SourceText

RENDERERS = {
    "full": "text:full",
    "concise": "text:concise",
    "grouped": "text:grouped",
    "json": "json_documents:findings",
    "json-lines": "json_documents:lines",
    "report": "json_documents:report",
    "pylint": "pylint:render",
    "github": "github:render",
    "gitlab": "gitlab:render",
    "junit": "junit:render",
    "sarif": "sarif:render",
    "html": "html:render",
}
"""For each format the module in this package, and the function in it."""
_NEEDS = {"junit": "junitparser", "html": "jinja2"}
"""The package that a format needs; it comes with the extra that is called as the format is."""
_BY_LINE_OF_FILE = ("pylint", "github", "gitlab", "sarif")
"""Formats that know no cells, and whose readers look for lines of the file."""
WITHOUT_DOCUMENT = ("full", "concise", "grouped", "pylint", "github")
"""Formats for which nothing at all is a valid text, so that a run that checked nothing prints nothing."""


class CheckResults(NamedTuple):
    """What a run of ``modellint check`` found, and what renderers need to know of it."""

    diagnostics: Sequence[Diagnostic]
    """In the order in which they are shown."""
    root: Path
    """Of the run."""
    folder: Path
    """The user's; files are named relative to it, or absolutely."""
    text_of: Callable[[str], SourceText | None]
    """The text of a file by the path that findings name."""
    rules: Mapping[str, Rule]
    files: Sequence[str] = ()
    """The files that were checked, as findings name them."""
    targets: Sequence[tuple[str, Conversion | None]] = ()
    """The live targets, and what is said of their conversion."""
    target_files: Mapping[str, str] = {}
    """The files of live targets that have one."""
    models: Sequence[ModelReport] = ()
    """More about the live targets, for formats that ``details_models``."""
    unchecked: Sequence[str] = ()
    """What was asked for and is not checked, and why."""
    unread: Sequence[str] = ()
    """Files that cannot be read, where no finding may say so."""
    warnings: Sequence[str] = ()
    docs_url: str | None = None
    failing: int = 1
    """The least severity that makes the exit status 1."""
    status: int = 0
    """The exit status."""
    fixed: int = 0
    """How many findings this run fixed."""
    unsafe: bool = False
    """Whether unsafe fixes were asked for."""
    quiet: bool = False
    color: bool = False

    @property
    def version(self) -> str:
        """That of modellint, looked up for the formats that tell it."""
        from modellint.version import version

        return version()


def render(name: str, results: CheckResults) -> str:
    """The results in one format."""
    if name in _BY_LINE_OF_FILE and any(finding.cells for finding in results.diagnostics):
        results = import_module(f"{__name__}.notebooks").in_files(results)
    module, _, function = RENDERERS[name].partition(":")
    text: str = getattr(import_module(f"{__name__}.{module}"), function)(results)
    return text


def expect_available(names: Collection[str]) -> None:
    """Raise ``UsageError`` for a format whose package is not installed."""
    for name in names:
        if name in _NEEDS:
            from importlib.util import find_spec

            if find_spec(_NEEDS[name]) is None:
                raise UsageError(f"--output-format {name} needs {_NEEDS[name]}: pip install 'modellint[{name}]'")


def details_models(names: Collection[str]) -> bool:
    """Whether one of these formats shows the modules, operators and comparison of live targets."""
    return "html" in names
