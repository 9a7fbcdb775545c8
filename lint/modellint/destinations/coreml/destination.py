"""Core ML as a destination: coremltools, its front end, and programs executed without a Mac."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.destinations.coreml import installed_versions, operator_support
from modellint.destinations.coreml.package import file_layout
from modellint.destinations.destination import Destination, Fault, StagePackage, VerifyOptions

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


class CoreML(Destination):
    """Core ML, by coremltools."""

    name = "coreml"
    converter = "coremltools"
    extra = "coreml"
    suffix = ".mlpackage"

    def version(self) -> str | None:
        """The installed version of coremltools; None where it is not installed."""
        return installed_versions.version(self.converter)

    def operators(
        self, names: Sequence[str], version: str | None, hints_of: Callable[[str], Iterable[Hint]]
    ) -> list[Support]:
        """What converts, from the table that was measured."""
        if names:
            return [operator_support.support(name, version, hints_of) for name in names]
        return list(operator_support.everything(version, hints_of))

    def faults(self, finding: Diagnostic, routes: tuple[str, ...]) -> tuple[str, ...]:
        """The routes that the rule names, as rules speak of coremltools."""
        return routes

    def dry_run(self, subject: Subject) -> tuple[Verdict, ...]:
        """Walk coremltools' front end without converting."""
        from modellint.destinations.coreml.dry_run.verdicts import judge

        return judge(subject)

    def alternatives(self, subject: Subject, faults: Sequence[Fault] = (), end: float = math.inf) -> Ways:
        """Other routes and deployment targets, and what an export supplies and fixes: tried, before it is told."""
        from modellint.destinations.coreml.dry_run.alternatives import ways

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
        """Convert to float32, and float16 where that is asked for, and execute the programs."""
        from modellint.destinations.coreml.capture.shared_captures import shared_captures
        from modellint.destinations.coreml.verify.model import verify

        captures = None if subject is None else shared_captures(subject)
        return verify(model, inputs, options, project, progress=progress, captures=captures, **rest)

    def check_package(self, path: str) -> None:
        """Look at an ``.mlpackage`` as files."""
        file_layout.check_layout(path)

    def verify_package(
        self, model: nn.Module, inputs: Inputs, path: str, project: Project, **rest: Unpack[VerifyOptions]
    ) -> Verification:
        """Execute the program of an ``.mlpackage``."""
        from modellint.destinations.coreml.verify.package import verify_package

        return verify_package(model, inputs, path, project, **rest)

    def check_record(self, folder: Path) -> None:
        """See that nothing is there that is no case."""
        from modellint.destinations.coreml.recorded_case.case_files import check_place

        check_place(folder)

    def check_recorded(self, package: Path, folder: Path) -> None:
        """Look at the case as files."""
        from modellint.destinations.coreml.recorded_case import case_files

        case_files.predictions(folder, case_files.check(package, folder))

    def verify_recorded(self, package: Path, folder: Path) -> Verification:
        """Execute the package on the inputs of the case."""
        from modellint.destinations.coreml.recorded_case.device_comparison import compared

        return compared(package, folder)

    def check_export(self, model: nn.Module, inputs: Inputs, wanted: Options, seed: int = 0) -> None:
        """See that images, labels and names fit."""
        from modellint.destinations.coreml.convert.export import check

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
        """Save an ``.mlpackage`` by the first route that converts and agrees."""
        from modellint.destinations.coreml.capture.shared_captures import shared_captures
        from modellint.destinations.coreml.convert.export import export

        return export(
            model,
            inputs,
            options,
            project,
            wanted,
            folder,
            name,
            specs=specs,
            seed=seed,
            progress=progress,
            faults=faults,
            shared=None if subject is None else shared_captures(subject),
            partly=partly,
        )

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
        """Save an ``.mlpackage`` with the functions ``prefill`` and ``decode``."""
        from modellint.destinations.coreml.language_model.export import export

        return export(model, wanted, options, project, folder, name, seed=seed, progress=progress)

    def compare_chain(
        self,
        chain: Chain,
        inputs: Inputs,
        packages: Mapping[str, StagePackage],
        calls: Sequence[Call],
        returned: Sequence[Tensor],
        precision: str,
    ) -> ChainComparison:
        """Execute the packages in the place of the modules."""
        from modellint.destinations.coreml.pipeline.chain_comparison import compare_chain

        return compare_chain(chain, inputs, packages, calls, returned, precision)

    def opened(self, package: Path, *, in_memory: bool) -> Any:
        """coremltools' `MLModel`; in memory with a copy of the weights that coremltools removes at the end of the process."""
        from modellint.destinations.coreml.private.entry_points import ct

        if not in_memory:
            return ct.models.MLModel(str(package), skip_model_load=True)
        weights = package / "Data" / "com.apple.CoreML" / "weights"
        return ct.models.MLModel(ct.utils.load_spec(str(package)), weights_dir=str(weights), skip_model_load=True)


DESTINATION = CoreML()
