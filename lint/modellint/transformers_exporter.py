"""Export backend of transformers for Core ML: importing this module registers the format ``coreml`` with transformers' exporters.

A model that transformers exports in this format is fixed, converted, executed and compared by ``modellint.export``; a package
that does not agree with it is not made. It takes transformers 5.23 or later, the first whose exporters can be added to
(https://huggingface.co/docs/transformers/exporters).

    import modellint.transformers_exporter
    from transformers.exporters import AutoHfExporter

    exporter = AutoHfExporter.from_config({"export_format": "coreml"})
    exported = exporter.export(model, inputs, {"deployment_target": "iOS17"})
    exported.save_pretrained("bert-coreml")
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint import __version__, api
from modellint.destinations.coreml.package import core_ml_runtime
from modellint.destinations.coreml.package.emulated_predictor import Predictor
from modellint.destinations.coreml.private.mil_programs import program_of

try:
    from transformers.exporters import ExportConfigMixin, ExportedModel, HfExporter, ModelRunner, register_backend
    from transformers.exporters.exporter_dynamo import patch_model_config
    from transformers.exporters.metadata import ExportMetadata, build_export_metadata
    from transformers.exporters.utils import prepare_for_export
except ImportError as _error:
    raise ImportError(
        f"modellint.transformers_exporter takes transformers 5.23 or later, whose exporters can be added to ({_error}): "
        "pip install -U transformers"
    ) from None

FORMAT = "coreml"
"""The name of the format among those of transformers."""


@dataclass
class CoreMLConfig(ExportConfigMixin):  # type: ignore[misc]
    """Export configuration; the fields are those of ``modellint.export``, with inputs by their names."""

    export_format: str = FORMAT
    deployment_target: str | None = None
    """As in ``"iOS17"``; by default that of coremltools."""
    precision: str | None = None
    """``fp16`` or ``fp32``."""
    frontend: str | None = None
    """``auto``, ``trace`` or ``export``."""
    flexible: dict[str, dict[int, tuple[int, int] | list[int]]] | None = None
    """Bounds of dimensions whose size may vary: ``{"input_ids": {1: (8, 128)}}``; or a list of their sizes."""
    ranges: dict[str, tuple[float, float]] | None = None
    """The values that inputs take, the end excluded; by default ids of tokens are below the size of the vocabulary, and masks 0 or 1."""
    quantizer: None = None
    """None: transformers' quantizers know no Core ML."""

    def __post_init__(self) -> None:
        if self.quantizer is not None:
            raise ValueError(
                "quantizer: transformers' quantizers know no Core ML; compress the package with coremltools.optimize"
            )


class CoreMLExporter(HfExporter):  # type: ignore[misc]
    """Exporter to Core ML: each program is coremltools' ``MLModel``, executed and compared with the model before it is returned."""

    export_format = FORMAT
    config_class = CoreMLConfig
    program_suffix = ".mlpackage"
    required_packages = ["torch", "coremltools"]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.results: list[api.ExportResult] = []
        """What ``modellint.export`` returned for each program, in their order: the comparison, and what was changed."""

    def export_program(
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: CoreMLConfig
    ) -> tuple[Any, ExportMetadata]:
        """Export one forward.

        Raises:
            modellint.ExportError: Where the model does not convert, or does not agree; its ``report`` says why.
            ValueError: For inputs that are neither tensors nor constants, as a cache.
        """
        model, prepared, flags = prepare_for_export(model, dict(sample_inputs))
        inputs = {name: value for name, value in prepared.items() if value is not None}
        _expect_plain(inputs)
        # A cache among the outputs is of use to nobody who cannot give it back.
        with patch_model_config(model, {"use_cache": False, **flags}):
            result = api.export(
                model,
                inputs,
                flexible=cast(Any, config.flexible),
                ranges={**_ranges(model, inputs), **cast(dict[str | int, Any], config.ranges or {})},
                frontend=config.frontend,
                deployment_target=config.deployment_target,
                precision=config.precision,
            )
            with torch.no_grad():
                outputs = model(**inputs)
        self.results.append(result)
        leaves, spec = pytree.tree_flatten(outputs)
        call_spec = SimpleNamespace(in_spec=pytree.tree_flatten(((), inputs))[1], out_spec=spec)
        metadata = build_export_metadata(model, inputs, SimpleNamespace(call_spec=call_spec), self.required_packages)
        metadata.packages["modellint"] = __version__
        metadata.out_constants = [[at, leaf] for at, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)]
        return result.mlmodel, metadata

    def export(self, *args: Any, **kwargs: Any) -> ExportedModel:
        """Export a model as one package."""
        return _replaceable(super().export(*args, **kwargs))

    def export_for_generation(self, *args: Any, **kwargs: Any) -> ExportedModel:
        """Export the stages of a model that generates, each by itself; a stage that takes a cache is refused."""
        return _replaceable(super().export_for_generation(*args, **kwargs))

    @classmethod
    def save_program(cls, program: Any, path: str | Path) -> None:
        """Write a program as a package."""
        program.save(str(path))

    @classmethod
    def load_program(cls, path: str | Path) -> Any:
        """Read a package back; on a Mac it is loaded into Core ML, too."""
        import coremltools as ct

        return ct.models.MLModel(str(path), skip_model_load=sys.platform != "darwin")

    @classmethod
    def program_files(cls, filename: str) -> list[str]:
        """The files of a package, as coremltools names them."""
        data = f"{filename}/Data/com.apple.CoreML"
        return [f"{filename}/Manifest.json", f"{data}/model.mlmodel", f"{data}/weights/weight.bin"]


class CoreMLModelRunner(ModelRunner):  # type: ignore[misc]
    """Runner of a package: by Core ML on a Mac, elsewhere by modellint's executor, which computes on the CPU what a program says.

    The executor is slow, and made for comparing. Integers come as Core ML has them, in 32 bits.
    """

    def __init__(self, program: Any, metadata: ExportMetadata) -> None:
        super().__init__(metadata)
        self._program = program
        self._predictor = Predictor(program_of(program))

    @property
    def device(self) -> torch.device:
        """The CPU, where inputs are to be; on a Mac, Core ML goes on to others by itself."""
        return torch.device("cpu")

    @classmethod
    def from_program(cls, program: Any, metadata: ExportMetadata, device: Any = None) -> CoreMLModelRunner:
        """A runner of a program. Raises ``ValueError`` for a device that is not the CPU."""
        if device is not None and torch.device(device).type != "cpu":
            raise ValueError(f"a Core ML program takes inputs on the CPU, and not on {device}")
        return cls(program, metadata)

    def __call__(self, share_inputs: bool = True, share_outputs: bool = False, **kwargs: Any) -> Any:
        """What the model returns for keyword arguments. Raises ``TypeError`` where one is missing."""
        names = self._predictor.input_names
        missing = [name for name in names if not isinstance(kwargs.get(name), Tensor)]
        if missing:
            raise TypeError(f"the program takes {', '.join(names)}, as tensors, and {', '.join(missing)} is missing")
        leaves = [kwargs[name] for name in names]
        if core_ml_runtime.is_available():
            outputs = core_ml_runtime.predicted(
                self._program, self._predictor.named(leaves), self._predictor.output_names
            )
        else:
            outputs = self._predictor(leaves)[0]
        return self.unflatten(outputs)


def _expect_plain(inputs: Mapping[str, Any]) -> None:
    for name, value in inputs.items():
        if not isinstance(value, (Tensor, bool, int, float, str)):
            raise ValueError(
                f"{name} is a {type(value).__name__}, and Core ML takes tensors: a step that takes a cache is not exported; "
                "export the forward without it, or a module that keeps its cache in buffers with modellint.export(…, states=True)"
            )


def _ranges(model: Any, inputs: Mapping[str, Any]) -> dict[str | int, tuple[float, float]]:
    """What the inputs of transformers' models hold by their names: ids of tokens, and masks."""
    ranges: dict[str | int, tuple[float, float]] = {}
    for name, value in inputs.items():
        if not isinstance(value, Tensor):
            continue
        if name.endswith("input_ids") and (size := getattr(getattr(model, "config", None), "vocab_size", None)):
            ranges[name] = (0, size)
        elif name.endswith("attention_mask") and not value.is_floating_point():
            ranges[name] = (0, 2)
    return ranges


class _Replacing(ExportedModel):  # type: ignore[misc]
    """An exported model that can be saved where an older one is: packages are folders, which are not replaced by a move."""

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs: Any) -> None:
        directory = Path(save_directory)
        old = [
            path for name in self.components if (path := directory / f"{name}{CoreMLExporter.program_suffix}").is_dir()
        ]
        with tempfile.TemporaryDirectory(dir=directory if old else None) as aside:
            for path in old:
                os.replace(path, Path(aside, path.name))  # noqa: PTH105
            try:
                super().save_pretrained(save_directory, push_to_hub, **kwargs)
            except BaseException:
                for path in old:
                    if not path.exists():
                        os.replace(Path(aside, path.name), path)  # noqa: PTH105
                raise


def _replaceable(exported: ExportedModel) -> ExportedModel:
    return _Replacing(exported.components, exported.export_format, exported.config, exported.generation_config)


register_backend(CoreMLExporter, CoreMLModelRunner)
