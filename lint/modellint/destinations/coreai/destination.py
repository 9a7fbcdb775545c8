"""Core AI as a destination: coreai-torch, and Apple's own interpreter, which runs on Linux too."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.destinations.coreai.routes import ROUTE
from modellint.destinations.destination import Destination, Fault, PackageError, VerifyOptions

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Unpack

    from modellint import settings
    from modellint.destinations.export_options import Options
    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject
    from modellint.results.conversion_verdict import Verdict, Ways
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.exported import Exported
    from modellint.results.operator_support import Hint, Support
    from modellint.results.verification import Verification

_MODULES = ("coreai_torch", "coreai")
_PYTHON = (3, 11)
_WRONG = frozenset({"OPS007", "OPS011"})
"""Codes of the rules whose findings, where they are errors, convert without a word into something else."""


class CoreAI(Destination):
    """Core AI, by coreai-torch."""

    name = "coreai"
    converter = "coreai-torch"
    extra = "coreai"
    suffix = ".aimodel"

    @property
    def is_installed(self) -> bool:
        """Whether converter and runtime can be found; they are not imported."""
        return all(importlib.util.find_spec(module) is not None for module in _MODULES)

    @property
    def requirement(self) -> str:
        """What to install, after "needs"."""
        python = "" if sys.version_info >= _PYTHON else " (Python 3.11 or newer)"
        return f"{self.converter}{python}: pip install 'modellint[{self.extra}]'"

    def version(self) -> str | None:
        """The installed version of coreai-torch; None where it is not installed."""
        try:
            return importlib.metadata.version(self.converter)
        except importlib.metadata.PackageNotFoundError:
            return None

    def operators(
        self, names: Sequence[str], version: str | None, hints_of: Callable[[str], Iterable[Hint]]
    ) -> list[Support]:
        """What was measured beside a version of coreai-torch. Raises ``UnknownOperator``."""
        from modellint.destinations.coreai import operator_support

        if not names:
            return list(operator_support.everything(version))
        return list(dict.fromkeys(operator_support.support(name, version) for name in names))

    def faults(self, finding: Diagnostic, routes: tuple[str, ...]) -> tuple[str, ...]:
        """The one route, where the rule's finding was measured to be another program for Core AI too."""
        return (ROUTE,) if finding.code in _WRONG and routes else ()

    def dry_run(self, subject: Subject) -> tuple[Verdict, ...]:
        """Convert, in a process of its own, and go on past each refusal."""
        from modellint.destinations.coreai.dry_run import judge

        return judge(subject, "" if self.is_installed else f"Core AI needs {self.requirement}")

    def alternatives(self, subject: Subject, faults: Sequence[Fault] = (), end: float = math.inf) -> Ways:
        """What an export supplies and fixes: tried, before it is told."""
        from modellint.destinations.coreai.alternatives import ways

        return ways(subject, faults, end)

    def verify(
        self,
        model: nn.Module,
        inputs: Inputs,
        options: settings.Destination,
        project: Project,
        *,
        progress: Callable[[str], None] | None = None,
        subject: Subject | None = None,
        **rest: Unpack[VerifyOptions],
    ) -> Verification:
        """Convert, and have the package run by Apple's interpreter."""
        from modellint.destinations.coreai.conversion import Converter, shared_converter
        from modellint.destinations.coreai.verify import verify

        converter = Converter() if subject is None else shared_converter(subject)
        return verify(model, inputs, project, converter, progress=progress, **rest)

    def check_package(self, path: str) -> None:
        """Raise ``PackageError``: a package is compared while it is exported."""
        raise PackageError(
            f"{path}: a saved package of Core AI cannot be compared yet; modellint export compares what it writes"
        )

    def verify_package(
        self, model: nn.Module, inputs: Inputs, path: str, project: Project, **rest: Unpack[VerifyOptions]
    ) -> Verification:
        """Raise ``PackageError``, as ``check_package`` does."""
        self.check_package(path)
        raise AssertionError(path)

    def check_export(self, model: nn.Module, inputs: Inputs, wanted: Options, seed: int = 0) -> None:
        """See that the package can have what is asked for."""
        from modellint.destinations.coreai.export import check

        check(model, inputs, wanted, seed)

    def export(
        self,
        model: nn.Module,
        inputs: Inputs,
        options: settings.Destination,
        project: Project,
        wanted: Options,
        folder: Path,
        name: str,
        *,
        specs: Sequence[InputSpec] = (),
        seed: int = 0,
        progress: Callable[[str], None] | None = None,
        faults: Sequence[Fault] = (),
        subject: Subject | None = None,
        partly: Callable[[Exported], None] | None = None,
    ) -> Exported:
        """Save an ``.aimodel``."""
        from modellint.destinations.coreai.export import export

        return export(
            model,
            inputs,
            options,
            project,
            wanted,
            folder,
            str(Path(name).with_suffix(self.suffix)),
            self.dry_run,
            specs=specs,
            seed=seed,
            progress=progress,
            subject=subject,
        )

    def opened(self, package: Path, *, in_memory: bool) -> Any:
        """The path of the package: its runtime stays out of this process, which it may end. Nothing of one that is not kept."""
        return None if in_memory else package


DESTINATION = CoreAI()
