"""Interface of a conversion destination: operator support, dry run, conversion and execution, export, known faults, versions.

Sessions, commands and reports reach a converter only through this. A destination is a package beside this module whose
``destination`` binds an instance to ``DESTINATION``; importing it imports neither the converter nor torch.
"""

from __future__ import annotations

import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

if TYPE_CHECKING:
    from torch import Tensor, nn
    from typing_extensions import Unpack

    from modellint import settings
    from modellint.destinations.comparison.chain_module import Call, Chain
    from modellint.destinations.export_options import LanguageModel, Options
    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject
    from modellint.results.conversion_verdict import Verdict, Ways
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.exported import Exported
    from modellint.results.exported_language_model import ExportedLanguageModel
    from modellint.results.exported_pipeline import ChainComparison
    from modellint.results.operator_support import Hint, Support
    from modellint.results.verification import Verification


class UnknownOperator(Exception):
    """A name that stands for no operator; the message names the nearest that do."""


class PackageError(Exception):
    """A saved model holds no program that could be read; the message says why."""


class Fault(NamedTuple):
    """A finding by which a model converts without a word into something else."""

    code: str
    operator: str | None
    routes: tuple[str, ...]
    place: str = ""
    """As in ``line 12 of net.py``."""
    hides: bool = False
    """Whether a comparison on a few inputs may miss it."""

    def says(self, route: str) -> str:
        """What a route is known to make of the model."""
        return f"{self.code} at {self.place}: converted by {route}, the model computes something else"

    def doubt(self, route: str) -> str:
        """Why a route that seems to agree is undecided."""
        return f"{self.says(route)}, though no comparison here shows it"


class StagePackage(NamedTuple):
    """A package of a pipeline's stage, as it was made."""

    example: Inputs
    """What it was exported with."""
    package: Path
    """As it is written."""
    single: Path
    """The same conversion in float32, which is the package itself where that computes in float32."""


class VerifyOptions(TypedDict, total=False):
    """Options of a verification."""

    specs: Sequence[InputSpec]
    """What the example was made from, for the ranges of integers."""
    seed: int
    """Where random numbers start."""
    with_layers: bool
    """Whether the errors of all operations are wanted where the programs agree too."""
    budget: float
    """Seconds after which no further inputs are begun."""
    limit: float
    """Seconds that there are: what would take longer, as far as that can be told, is left out."""
    partly: Callable[[Verification], None]
    """Told what is known so far, after each set of inputs."""
    record: Path | None
    """The folder that a case for a device is written to, if one is wanted: inputs, and PyTorch's outputs."""


class Destination(ABC):
    """A converter with its runtime and its format of packages."""

    name: ClassVar[str]
    """As in the name of its package: ``coreml``."""
    converter: ClassVar[str]
    """The module that converts, which is also the name of its distribution: ``coremltools``."""
    extra: ClassVar[str]
    """The extra of modellint that installs it."""
    suffix: ClassVar[str] = ".mlpackage"
    """What the names of its packages end in."""

    # Versions

    @property
    def is_installed(self) -> bool:
        """Whether the converter can be found; it is not imported."""
        return importlib.util.find_spec(self.converter) is not None

    @property
    def requirement(self) -> str:
        """What to install, after "needs"."""
        return f"{self.converter}: pip install 'modellint[{self.extra}]'"

    @abstractmethod
    def version(self) -> str | None:
        """The installed version of the converter; None where it is not installed."""

    # What is known without a model

    @abstractmethod
    def operators(
        self, names: Sequence[str], version: str | None, hints_of: Callable[[str], Iterable[Hint]]
    ) -> list[Support]:
        """What converts, by route and version: the operators that the names stand for, or all of them without names.

        ``version`` is that of the converter, None for the newest known; ``hints_of`` what rules know of an operator. Raises
        ``UnknownOperator``.
        """

    def faults(self, finding: Diagnostic, routes: tuple[str, ...]) -> tuple[str, ...]:
        """The routes by which the converter is known to make something else of what a finding is about.

        ``routes`` are those that the finding's rule names, for Core ML. Of another converter nothing is known unless it says so.
        """
        return ()

    # What is known of a model

    @abstractmethod
    def dry_run(self, subject: Subject) -> tuple[Verdict, ...]:
        """Capture a model and walk it as the converter would: a verdict for each route that was tried, with all blockers."""

    def alternatives(self, subject: Subject, faults: Sequence[Fault] = (), end: float = math.inf) -> Ways:
        """What else converts a model that the converter refuses, or turns into something else.

        Nothing is tried that might take longer than ``end``, by the clock of ``time.monotonic``.
        """
        from modellint.results.conversion_verdict import NO_WAYS

        return NO_WAYS

    @abstractmethod
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
        """Convert a model, execute its program, and compare that with PyTorch; the model is left as it was.

        Of a ``subject`` of this model and these inputs the captures are shared.
        """

    def execute(self, subject: Subject) -> Verification:
        """Convert and execute a model on its example inputs alone, for rules that ask about that."""
        from modellint.results.verification import NOT_CONVERTED, Verification

        assert subject.inputs is not None
        if not self.is_installed:
            return Verification(
                NOT_CONVERTED, f"{self.converter} is not installed: pip install 'modellint[{self.extra}]'"
            )
        return self.verify(
            subject.model, subject.inputs, subject.destination, subject.project, subject=subject, budget=0.0
        )

    # Packages

    @abstractmethod
    def check_package(self, path: str) -> None:
        """Raise ``PackageError`` for what is no saved model, and for one that is not all within itself; nothing is read of it."""

    @abstractmethod
    def verify_package(
        self, model: nn.Module, inputs: Inputs, path: str, project: Project, **rest: Unpack[VerifyOptions]
    ) -> Verification:
        """Compare a saved model with the module that it is said to be of. Raises ``PackageError``."""

    # Recorded cases

    def check_record(self, folder: Path) -> None:
        """Raise ``PackageError`` where a case cannot be recorded; another converter has none unless it says so."""
        raise PackageError(f"{folder}: a case is recorded for Core ML alone: leave --record out")

    def check_recorded(self, package: Path, folder: Path) -> None:
        """Raise ``PackageError`` for what is no case of a package with a device's predictions; nothing is executed."""
        raise PackageError(f"{folder}: a recorded case is one of Core ML")

    def verify_recorded(self, package: Path, folder: Path) -> Verification:
        """Compare what a device predicted with PyTorch, as recorded, and with the package executed. Raises ``PackageError``."""
        self.check_recorded(package, folder)
        raise AssertionError(package)

    @abstractmethod
    def check_export(self, model: nn.Module, inputs: Inputs, wanted: Options, seed: int = 0) -> None:
        """See that the options of an export fit the model, by one run of it at most. Raises ``OptionError``."""

    @abstractmethod
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
        """Fix, convert, save and verify a model, which is left as it was: a package ``name`` in ``folder``. Raises ``OptionError``.

        Of a ``subject`` of this model and these inputs, as it was checked, what was captured and converted may be shared.
        ``partly`` is told of an export that leads to no package before other options are tried.
        """

    def export_language_model(
        self,
        model: nn.Module,
        wanted: LanguageModel,
        options: settings.Destination,
        project: Project,
        folder: Path,
        name: str,
        *,
        seed: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> ExportedLanguageModel:
        """Make a package ``name`` in ``folder`` with prefill and decode. Raises ``OptionError``; another converter has none."""
        from modellint.destinations.export_options import OptionError

        raise OptionError("a language model is exported for Core ML alone")

    def compare_chain(
        self,
        chain: Chain,
        inputs: Inputs,
        packages: Mapping[str, StagePackage],
        calls: Sequence[Call],
        returned: Sequence[Tensor],
        precision: str,
    ) -> ChainComparison:
        """Run a chain with the packages of its stages, and compare what it returns. Another converter has none."""
        from modellint.destinations.export_options import OptionError

        raise OptionError("a pipeline is exported for Core ML alone")

    @abstractmethod
    def opened(self, package: Path, *, in_memory: bool) -> Any:
        """The converter's own object for a saved model, not loaded; ``in_memory``: one that does without the files."""
