"""Export of a language model: prefill and decode in one package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.api.arguments import chosen, output_path
from modellint.results.progress import Progress

if TYPE_CHECKING:
    from torch import nn

    from modellint.results.exported_language_model import ExportedLanguageModel


class LanguageModelError(Exception):
    """A language model does not convert, or its package does not generate what it does. ``summary`` says why."""

    __module__ = "modellint"

    def __init__(self, summary: ExportedLanguageModel, name: str = "") -> None:
        from modellint.report import language_model_export_text as texts

        super().__init__(texts.render(summary, name).rstrip("\n"))
        self.summary = summary
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.summary, self._name)


@dataclass(frozen=True, slots=True, repr=False)
class LanguageModelResult:
    """An exported language model; it prints as the summary that the command ends with."""

    mlmodel: Any
    """coremltools' `MLModel`, not loaded into Core ML: `MLModel(path, function_name="decode")` does that on a Mac."""
    path: Path | None
    """The package; None where it is kept in memory."""
    summary: ExportedLanguageModel
    """Both functions, how the package generates, and sizes."""

    def __repr__(self) -> str:
        from modellint.report import language_model_export_text as texts

        return texts.render(self.summary, "" if self.path is None else str(self.path)).rstrip("\n")


def language_model(
    model: nn.Module,
    *,
    output: str | PathLike[str] | None = None,
    force: bool = False,
    context: int | None = None,
    prefill: int | Sequence[int] = 64,
    source: Sequence[int] | None = None,
    author: str = "",
    license: str = "",  # noqa: A002
    description: str = "",
    version: str = "",
    root: str | PathLike[str] | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | bool | None = None,
) -> LanguageModelResult:
    """Export a language model to Core ML: prefill and decode in one package, its caches as states.

    Both functions take ``input_ids``, int32 of 1xN, and ``position``, int32 of shape (1,): how many tokens came before. They return
    ``logits`` of 1 x N x vocabulary. Tokens may be padded at the end of a prompt, within the context.

    Of an encoder-decoder, such as Whisper or T5, there is a third function, ``encode``: it takes ``input_features``, or ``input_ids``
    of 1xS and ``source_length``, int32 of shape (1,), how many of them are meant. It returns ``cross_keys`` and ``cross_values``, of
    layers x heads x S x size, which prefill and decode take, as they do ``source_length``.

    Args:
        model: A causal model or an encoder-decoder of transformers; or a module whose ``forward`` takes these two, returns these
            logits, and keeps its cache in buffers.
        output: Where the package goes; None keeps it in memory.
        force: Replace what is there.
        context: The length of the caches in tokens; by default 256, or what the model is made for if that is less. Of a module
            with its own cache it must be given.
        prefill: How many tokens prefill takes at once; a list of such numbers, or a pair of bounds.
        source: The shape of what the encoder of an encoder-decoder reads, batch included; by default 1x64 tokens, or the features
            of the length that the model is made for.
        author: Who made it.
        license: Under which it may be used.
        description: What it does.
        version: Its version.
        root: The folder whose settings hold; by default that of the project of the model's class.
        frontend: ``auto``, ``trace`` or ``export``.
        deployment_target: From ``"iOS18"`` on, which it is by default.
        precision: ``fp16`` or ``fp32``.
        seed: Where random numbers start.
        progress: A function that is told each stage, or True to show them.

    The package, as it is saved, is executed here: 64 tokens are decoded greedily and compared with PyTorch, which for a model of
    transformers is its `generate`, as are logits and caches at every step, and a second run. It is written where all agree, and where both
    functions agree in float32 and rounding decides between tokens that are nearly as good; the summary says at which step.

    Raises:
        LanguageModelError: Where the model does not convert, differs, or cannot be judged; its ``summary`` says why.
        FileExistsError: For an ``output`` that exists, without ``force``.
        OSError: For one that cannot be written.
        TypeError: For what is no model.
        ValueError: For unknown words, and for a model or lengths that are not taken.
        ImportError: Without PyTorch or coremltools.
    """
    from torch import nn

    from modellint.destinations.export_options import LanguageModel, Metadata, OptionError
    from modellint.session.export import exported_language_model
    from modellint.session.progress_output import reporting

    if not isinstance(model, nn.Module):
        raise TypeError(f"an nn.Module is needed, not {type(model).__name__}")
    settings = chosen(frontend, deployment_target, precision)
    path = output_path(output, force)
    lengths = (prefill,) if isinstance(prefill, int) else tuple(prefill)
    is_range = isinstance(prefill, tuple) and len(prefill) == 2
    if not lengths or min(lengths) < 1 or (context is not None and context < 1):
        raise ValueError("context and prefill are numbers of tokens, from 1 on")
    shape = None if source is None else tuple(source)
    if shape is not None and (not shape or min(shape) < 1):
        raise ValueError("source is a shape, of sizes from 1 on")
    metadata = Metadata(author, license, description, version)
    wanted = LanguageModel(context, lengths, is_range, deployment_target is not None, source=shape, metadata=metadata)
    try:
        with reporting(progress, model) as entered:
            mlmodel, summary = exported_language_model(model, root, settings, wanted, path, force, seed, entered)
    except OptionError as error:
        raise ValueError(str(error)) from None
    if mlmodel is None:
        raise LanguageModelError(summary, "" if path is None else str(path))
    return LanguageModelResult(mlmodel, path, summary)
