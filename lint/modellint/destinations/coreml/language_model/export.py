"""Export of a language model: prefill and decode, each exported on its own, joined in one package and compared as it is used."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.capture.single_precision import in_single_precision
from modellint.destinations.comparison.program import RunError
from modellint.destinations.coreml.convert import export as single_export
from modellint.destinations.coreml.language_model import cached_decoder, encoder_decoder
from modellint.destinations.coreml.language_model.generation import compared, greedy
from modellint.destinations.coreml.language_model.package_functions import (
    ARGUMENTS,
    CROSS,
    ENCODE,
    LOGITS,
    PREFILL,
    SOURCE_LENGTH,
    Chunking,
    Parts,
)
from modellint.destinations.coreml.mil.executor import UnknownOperations
from modellint.destinations.coreml.package.input_output_specification import remarks_on_states
from modellint.destinations.coreml.private.entry_points import ct, silence
from modellint.destinations.coreml.private.mil_programs import read_package
from modellint.destinations.coreml.verify.difference_location import first_line
from modellint.destinations.export_options import STATES_SINCE, OptionError, Options
from modellint.live.inputs.model_inputs import Inputs, Listed
from modellint.results.exported_language_model import ExportedLanguageModel
from modellint.results.verification import AGREES, DIFFERS, UNDECIDED

if TYPE_CHECKING:
    from torch import Tensor, nn

    from modellint.destinations.export_options import LanguageModel
    from modellint.live.code.places import Project
    from modellint.results.exported import Exported
    from modellint.settings import Destination

_CONTEXT = 256
"""Tokens that the caches hold where nobody says else."""
_BUDGET = 20.0
"""Seconds after which no further inputs are begun, in each comparison of a function on its own."""


def export(
    model: nn.Module,
    wanted: LanguageModel,
    destination: Destination,
    project: Project,
    folder: Path,
    name: str,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ExportedLanguageModel:
    """Make a package with prefill and decode, and compare how it generates; the model is left in evaluation mode.

    Args:
        model: A causal model of transformers, or a module that takes ``input_ids`` and ``position`` and keeps its cache in buffers.
        wanted: Lengths of the caches and of prefill, and metadata.
        destination: Front end, deployment target and precision.
        project: Whose statements differences are placed at.
        folder: Where the package is made, and files beside it that are of no use afterwards.
        name: What the package is called.
        seed: Where random numbers start.
        progress: Told what is done.

    The result says under which name the package is in ``folder``, where both functions convert. Raises ``OptionError`` for a model
    or for lengths that are not taken.
    """
    tell = progress or _silent
    if destination.ios < STATES_SINCE and not wanted.keeps_target:
        destination = destination._replace(target=f"iOS{STATES_SINCE}")
    if destination.ios < STATES_SINCE:
        raise OptionError(f"a language model keeps its cache in states: --deployment-target iOS{STATES_SINCE} or newer")
    model.eval()
    single = in_single_precision(model, _example(model, wanted, seed))
    if single is not None:
        model = single.model
    parts = _parts(model, wanted, seed)
    context = parts.context
    sizes = wanted.prefill if wanted.is_range or len(wanted.prefill) == 1 else Listed(wanted.prefill)
    if max(sizes) > context:
        raise OptionError(f"prefill of {max(sizes)} tokens is longer than the context, {context}")
    conditions = parts.conditions()
    vocabulary = _vocabulary(parts.decoder, max(sizes), conditions)
    notes = (
        *(() if single is None else (single.change.note,)),
        *remarks_on_states(dict(parts.decoder.named_buffers(recurse=False))),
        *_remarks_on_chunks(parts.chunking),
    )
    result = ExportedLanguageModel(destination.target, destination.precision, context, notes=notes)
    functions: list[tuple[str, Exported]] = []
    for function in parts.functions:
        is_encoder = function == ENCODE
        making = folder / function
        making.mkdir()
        exported = single_export.export(
            # There is an encoder where there is its function.
            parts.encoder if is_encoder else parts.decoder,  # type: ignore[arg-type]
            _source(parts, vocabulary) if is_encoder else _inputs(function, sizes, parts, vocabulary, conditions, seed),
            destination,
            project,
            Options(
                states=not is_encoder,
                output_names=CROSS if is_encoder else (LOGITS,),
                metadata=wanted.metadata,
                # What encode gives is what the others take.
                half_inputs=True,
            ),
            making,
            f"{function}.mlpackage",
            seed=seed,
            budget=_BUDGET,
            progress=lambda stage, function=function: tell(f"{function}: {stage}"),  # type: ignore[misc]
        )
        functions.append((function, exported))
        result = replace(result, functions=tuple(functions))
        if not exported.converts:
            return replace(result, reason=f"{function} does not convert")
        if exported.verification.verdict == DIFFERS:
            reason = f"{function} on its own does not agree: {exported.verification.reason}"
            if exported.verification.single == AGREES and destination.precision == "fp16":
                reason += "; in float32 it does: try --precision fp32"
            return replace(result, verdict=DIFFERS, reason=reason)
    tell("joining")
    try:
        _joined(folder, name, parts.functions)
        # As it is saved, not as it was converted.
        program, _ = read_package(folder / name)
    except Exception as error:
        # Whatever coremltools' writer and reader say.
        return replace(result, reason=f"the functions cannot be joined: {first_line(error)}")
    result = replace(
        result,
        package=name,
        size=_size(folder / name),
        apart=sum(_size(folder / function / f"{function}.mlpackage") for function in parts.functions),
    )
    for function in parts.functions:
        shutil.rmtree(folder / function)
    tell("decoding")
    prompt, count = _prompt(sizes, parts, vocabulary, wanted.tokens, seed)
    greedily = greedy(model, parts, prompt, count, sizes)
    try:
        done = compared(program, parts, greedily, sizes, destination.precision)
    except (RunError, UnknownOperations) as error:
        return replace(result, verdict=UNDECIDED, reason=f"the package cannot be executed: {error}")
    if count != wanted.tokens:
        notes = (*notes, f"{count} tokens were decoded: the context holds no more")
    verdict, reason = done.verdict, done.reason
    # What devices do with one of the functions they do with the whole.
    departed = next((each.verification.open_on for _, each in functions if each.verification.is_open_on_devices), "")
    if verdict == AGREES and departed:
        verdict, reason = UNDECIDED, departed
    return replace(result, verdict=verdict, reason=reason, generation=done.generation, notes=notes)


def _example(model: nn.Module, wanted: LanguageModel, seed: int) -> Inputs:
    """What a model is run on to compare its own type of numbers with float32."""
    ids = torch.arange(1, 9).unsqueeze(0)
    if not cached_decoder.is_of_transformers(model):
        return Inputs(kwargs=dict(zip(ARGUMENTS, (ids.int(), torch.zeros(1, dtype=torch.int32)), strict=True)))
    if not _has_encoder(model):
        return Inputs(kwargs={"input_ids": ids, "use_cache": False, "return_dict": False})
    source = encoder_decoder.called(encoder_decoder.source_of(model, wanted.source, seed))
    dtype = next(model.parameters()).dtype
    cast = {name: value.to(dtype) if value.is_floating_point() else value for name, value in source.items()}
    return Inputs(kwargs={**cast, "decoder_input_ids": ids, "use_cache": False, "return_dict": False})


def _has_encoder(model: nn.Module) -> bool:
    return cached_decoder.is_of_transformers(model) and bool(getattr(model.config, "is_encoder_decoder", False))


def _parts(model: nn.Module, wanted: LanguageModel, seed: int) -> Parts:
    if _has_encoder(model):
        return encoder_decoder.parts_of(model, wanted.context, _CONTEXT, wanted.source, seed)
    if wanted.source is not None:
        raise OptionError(f"source: {type(model).__name__} is no encoder-decoder of transformers, and reads none")
    return cached_decoder.parts_of(model, wanted.context, _CONTEXT)


def _vocabulary(decoder: nn.Module, length: int, conditions: Mapping[str, Tensor]) -> int:
    """How many tokens there are, by the logits of a run. Raises ``OptionError`` where they are none."""
    buffers = dict(decoder.named_buffers())
    kept = {name: buffer.clone() for name, buffer in buffers.items()}
    ids = torch.zeros(1, length, dtype=torch.int32)
    try:
        with torch.no_grad():
            logits: Any = decoder(ids, torch.zeros(1, dtype=torch.int32), *conditions.values())
    except Exception as error:
        raise OptionError(f"forward does not take {length} tokens at once: {first_line(error)}") from error
    finally:
        with torch.no_grad():
            for name, buffer in buffers.items():
                buffer.copy_(kept[name])
    if not isinstance(logits, torch.Tensor) or logits.dim() != 3 or logits.shape[:2] != ids.shape:
        raise OptionError(f"forward must return logits of 1 x {length} x vocabulary")
    if not isinstance(decoder, (cached_decoder.CachedDecoder, encoder_decoder.CrossDecoder)):
        return int(logits.shape[2])
    return min(int(logits.shape[2]), cached_decoder.vocabulary_of(decoder.model))


def _source(parts: Parts, vocabulary: int) -> Inputs:
    """The example of a source, and how it varies."""
    return Inputs(kwargs=dict(parts.source), ranges=_ranges_of_source(parts.source, vocabulary))


def _ranges_of_source(source: Mapping[str, Tensor], vocabulary: int) -> dict[str | int, tuple[float, float]]:
    if SOURCE_LENGTH not in source:
        return {}
    (tokens,) = (name for name in source if name != SOURCE_LENGTH)
    return {tokens: (0, vocabulary), SOURCE_LENGTH: (1, source[tokens].shape[1] + 1)}


def _inputs(
    function: str,
    sizes: tuple[int, ...],
    parts: Parts,
    vocabulary: int,
    conditions: Mapping[str, Tensor],
    seed: int,
) -> Inputs:
    """The example of a function, and how it varies: tokens of the vocabulary at any place where it may be called."""
    is_prefill = function == PREFILL
    context = parts.context
    only_first = is_prefill and parts.chunking is Chunking.FIRST
    lengths = sizes.sizes if isinstance(sizes, Listed) else tuple(sizes)
    length = lengths[0] if is_prefill else 1
    ids = _drawn(length, vocabulary, seed)
    position = torch.tensor([0 if is_prefill else min(5, context - 1)], dtype=torch.int32)
    varies = is_prefill and len(lengths) > 1
    return Inputs(
        kwargs={**dict(zip(ARGUMENTS, (ids, position), strict=True)), **conditions},
        flexible={ARGUMENTS[0]: {1: sizes if isinstance(sizes, Listed) else (min(sizes), max(sizes))}}
        if varies
        else {},
        ranges={
            ARGUMENTS[0]: (0, vocabulary),
            ARGUMENTS[1]: (0, 1 if only_first else context - (max(lengths) if is_prefill else 1) + 1),
            **({SOURCE_LENGTH: (1, conditions[CROSS[0]].shape[2] + 1)} if SOURCE_LENGTH in conditions else {}),
        },
    )


def _drawn(length: int, vocabulary: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (1, length), generator=generator, dtype=torch.int32)


def _prompt(sizes: Sequence[int], parts: Parts, vocabulary: int, tokens: int, seed: int) -> tuple[Tensor, int]:
    """A prompt that prefill reads in parts, of which one is not full, where the context allows it, and how many tokens follow."""
    size, context = max(sizes), parts.context
    # Chunks that must be full are read twice, and a rest of some tokens by decode.
    length = size + (size + 1) // 2 if parts.chunking is not Chunking.FULL else 2 * size + min(3, size)
    if 2 * size > context or (length + tokens > context and 2 * length > context):
        length = max(1, size - (parts.chunking is Chunking.PADDED), min(size, context - tokens))
    return _drawn(length, vocabulary, seed + 1).long(), min(tokens, context - length + 1)


def _remarks_on_chunks(chunking: Chunking) -> tuple[str, ...]:
    """How prefill is to be called, where it is not as always."""
    if chunking is Chunking.PADDED:
        return ()
    rest = "a recurrence takes padding for tokens: give what does not fill a chunk to decode, token by token"
    if chunking is Chunking.FULL:
        return (f"prefill reads full chunks alone, as {rest}",)
    return (
        f"prefill reads the first chunk of a text alone: the model has no code to go on with several tokens; {rest}",
    )


def _joined(folder: Path, name: str, functions: Sequence[str]) -> None:
    """Save functions as one package, in which equal weights stand once."""
    description = ct.utils.MultiFunctionDescriptor()
    for function in functions:
        description.add_function(str(folder / function / f"{function}.mlpackage"), "main", function)
    description.default_function_name = functions[0]
    with silence():
        ct.utils.save_multifunction(description, str(folder / name))


def _size(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file())


def _silent(stage: str) -> None:
    """Report no progress."""
