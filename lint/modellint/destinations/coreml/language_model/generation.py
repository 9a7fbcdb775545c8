"""Greedy decoding of a package on this machine, prefill then decode, held against PyTorch at every step."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.destinations.comparison.rounding_tolerance import SYSTEMATIC
from modellint.destinations.comparison.tensor_difference import SNR, compare, error_over_scale
from modellint.destinations.coreml.capture.graph_interpreter import sanitized
from modellint.destinations.coreml.language_model.cached_decoder import is_of_transformers
from modellint.destinations.coreml.language_model.encoder_decoder import called
from modellint.destinations.coreml.language_model.package_functions import (
    ARGUMENTS,
    DECODE,
    ENCODE,
    LOGITS,
    PREFILL,
    Chunking,
    Parts,
)
from modellint.destinations.coreml.mil.executor import Executor
from modellint.live.inputs.model_inputs import Listed
from modellint.results.exported_language_model import Generation, Token
from modellint.results.verification import AGREES, DIFFERS, UNDECIDED


class Greedy(NamedTuple):
    """PyTorch's greedy decoding."""

    prompt: Tensor
    """Tokens, 1xL."""
    tokens: list[int]
    logits: list[Tensor]
    """Of each token, as many as the vocabulary has."""


class Compared(NamedTuple):
    """How a package generates, and the verdict on that."""

    verdict: str
    reason: str
    generation: Generation


class _Step(NamedTuple):
    logits: Tensor
    states: dict[str, Tensor]


def greedy(model: nn.Module, parts: Parts, prompt: Tensor, count: int, sizes: Sequence[int]) -> Greedy:
    """Decode ``count`` tokens: by `generate` of transformers, with the cache that it makes, else by plain calls of the decoder."""
    if not is_of_transformers(model):
        return _called(parts, prompt, count, sizes)
    library = importlib.import_module("transformers")
    options = library.GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=count,
        return_dict_in_generate=True,
        output_logits=True,
        # Else that is put before the prompt of a decoder behind an encoder.
        decoder_start_token_id=int(prompt[0, 0]),
    )
    arguments = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    if parts.encoder is not None:
        arguments = {**called(parts.source), "decoder_input_ids": prompt}
    # What its own settings say of ends and penalties has no place in a comparison.
    kept = model.generation_config
    model.generation_config = options
    try:
        with torch.no_grad():
            # Whisper's own `generate` cuts a sound into pieces, and calls this one for each.
            generated = library.GenerationMixin.generate(model, **arguments, generation_config=options)
    finally:
        model.generation_config = kept
    tokens = generated.sequences[0, prompt.shape[1] :].tolist()
    return Greedy(prompt, tokens, [logits[0].float() for logits in generated.logits])


def _called(parts: Parts, prompt: Tensor, count: int, sizes: Sequence[int]) -> Greedy:
    tokens: list[int] = []
    logits: list[Tensor] = []
    for step in _in_pytorch(parts, prompt, tokens, count, sizes):
        logits.append(step.logits)
        tokens.append(int(step.logits.argmax()))
    return Greedy(prompt, tokens, logits)


def chunks(
    length: int, sizes: Sequence[int] | tuple[int, int], chunking: Chunking = Chunking.PADDED
) -> Iterator[tuple[int, int, int]]:
    """Chunks in which prefill reads a prompt: where each begins, how many tokens it has, and to how many it is padded.

    Of listed sizes the smallest that holds what is left is taken, else the largest. Where chunks must be full, the largest that can
    be filled, and what is left is left to decode.
    """
    is_range = len(sizes) == 2 and not isinstance(sizes, Listed)
    allowed = sorted(sizes.sizes) if isinstance(sizes, Listed) else sizes
    at = 0
    if chunking is not Chunking.PADDED:
        while size := _filled(length - at, allowed, is_range):
            yield at, size, size
            at += size
            if chunking is Chunking.FIRST:
                return
        return
    while at < length:
        left = length - at
        padded = next((size for size in allowed if size >= left), max(allowed))
        if is_range:
            padded = min(max(left, sizes[0]), sizes[1])
        yield at, min(left, padded), padded
        at += min(left, padded)


def _filled(left: int, allowed: Sequence[int], is_range: bool) -> int:
    """The largest chunk that so many tokens fill, 0 for none."""
    if is_range:
        return min(left, max(allowed)) if left >= min(allowed) else 0
    return max((size for size in allowed if size <= left), default=0)


def _calls(
    parts: Parts, prompt: Tensor, tokens: Sequence[int], count: int, sizes: Sequence[int]
) -> Iterator[tuple[str, Tensor, int, int | None]]:
    """The calls of a generation: function, tokens, position, and which row of the logits is a step's; None for none.

    ``tokens`` may grow while these are made: each is asked for when its turn comes.
    """
    length, read = prompt.shape[1], 0
    for at, taken, padded in chunks(length, sizes, parts.chunking):
        read = at + taken
        ids = torch.zeros(1, padded, dtype=torch.int32)
        ids[:, :taken] = prompt[:, at:read]
        yield PREFILL, ids, at, taken - 1 if read == length else None
    for at in range(read, length):
        yield DECODE, prompt[:, at : at + 1].int(), at, 0 if at + 1 == length else None
    for step in range(count - 1):
        yield DECODE, torch.tensor([[tokens[step]]], dtype=torch.int32), length + step, 0


def _in_pytorch(
    parts: Parts, prompt: Tensor, tokens: Sequence[int], count: int, sizes: Sequence[int]
) -> Iterator[_Step]:
    """The steps of a decoder, from empty caches; its buffers are put back."""
    decoder, conditions = parts.decoder, parts.conditions()
    buffers = dict(decoder.named_buffers())
    kept = {name: buffer.clone() for name, buffer in buffers.items()}
    try:
        for _, ids, position, row in _calls(parts, prompt, tokens, count, sizes):
            with torch.no_grad():
                logits = decoder(ids, torch.tensor([position], dtype=torch.int32), *conditions.values())
            if row is not None:
                yield _Step(logits[0, row].float(), {name: buffer.clone() for name, buffer in buffers.items()})
    finally:
        with torch.no_grad():
            for name, buffer in buffers.items():
                buffer.copy_(kept[name])


def _executed(program: Any, parts: Parts, greedily: Greedy, sizes: Sequence[int], rounds: bool) -> Iterator[_Step]:
    """The steps of a package, from new states that decode takes over from prefill; what encode gives goes to both."""
    executors = {name: Executor(program, name, rounds=rounds) for name in parts.functions}
    conditions = parts.passed(executors[ENCODE](dict(parts.source))) if ENCODE in executors else {}
    states: Mapping[str, Tensor] = executors[PREFILL].states
    for name, ids, position, row in _calls(parts, greedily.prompt, greedily.tokens, len(greedily.tokens), sizes):
        executor = executors[name]
        executor.begin(states)
        values = (ids, torch.tensor([position], dtype=torch.int32))
        outputs = executor({**dict(zip(ARGUMENTS, values, strict=True)), **conditions})
        states = executor.states
        if row is not None:
            yield _Step(outputs[LOGITS][0, row].float(), {key: value.clone() for key, value in states.items()})


def compared(program: Any, parts: Parts, greedily: Greedy, sizes: Sequence[int], precision: str) -> Compared:
    """Hold the steps of a package against PyTorch's: the tokens, logits and caches of each, and a second run.

    Raises ``RunError`` where a function cannot be run.
    """
    ours = list(_executed(program, parts, greedily, sizes, True))
    again = list(_executed(program, parts, greedily, sizes, True))
    right = list(_in_pytorch(parts, greedily.prompt, greedily.tokens, len(greedily.tokens), sizes))
    own = max(error_over_scale(step.logits, logits) for step, logits in zip(right, greedily.logits, strict=True))
    names = {name: sanitized(name) for name in right[0].states if sanitized(name) in ours[0].states}
    logits = min(
        (compare(step.logits, wanted).snr for step, wanted in zip(ours, greedily.logits, strict=True)), default=math.inf
    )
    states = min(
        (
            compare(step.states[there], wanted.states[name]).snr
            for step, wanted in zip(ours, right, strict=True)
            for name, there in names.items()
        ),
        default=math.inf,
    )
    single = None
    if precision == "fp32":
        exact = _executed(program, parts, greedily, sizes, False)
        single = max(error_over_scale(step.logits, wanted) for step, wanted in zip(exact, greedily.logits, strict=True))
    repeats = all(
        torch.equal(step.logits, repeated.logits)
        and all(torch.equal(step.states[key], repeated.states[key]) for key in step.states)
        for step, repeated in zip(ours, again, strict=True)
    )
    got = [int(step.logits.argmax()) for step in ours]
    apart = [at for at, (token, expected) in enumerate(zip(got, greedily.tokens, strict=True)) if token != expected]
    generation = Generation(
        greedily.prompt.shape[1],
        len(got),
        len(got) - len(apart),
        _token(apart[0], greedily, ours, got) if apart else None,
        logits,
        states,
        single,
        repeats,
    )
    return Compared(*_verdict(generation, own), generation)


def _token(at: int, greedily: Greedy, ours: Sequence[_Step], got: Sequence[int]) -> Token:
    expected, here, there = greedily.tokens[at], ours[at].logits, greedily.logits[at]
    margin = float(there[expected] - there[got[at]])
    return Token(at + 1, expected, got[at], margin, float(here[got[at]] - here[expected]))


def _verdict(generation: Generation, own: float) -> tuple[str, str]:
    """The verdict, and why, if it is not that they agree; ``own`` is how far the decoder in PyTorch is from `generate`."""
    if own > SYSTEMATIC:
        return (
            DIFFERS,
            f"the model with its cache in buffers computes something else, by {own:.1e} of the logits' scale",
        )
    if generation.single is not None and generation.single > SYSTEMATIC:
        return DIFFERS, f"the package computes something else, by {generation.single:.1e} of the logits' scale"
    for what, snr in (("logits", generation.logits), ("caches", generation.states)):
        if snr < SNR:
            return DIFFERS, f"the {what} are not precise enough: {snr:.0f} dB at the worst step"
    if not generation.repeats:
        return DIFFERS, "a second run from fresh states gives something else"
    if generation.first is not None:
        return UNDECIDED, "the logits agree, and rounding decides between tokens that are nearly as good"
    return AGREES, ""
