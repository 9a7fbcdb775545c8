"""A model converted by each route and precision, the programs executed, and their outputs beside PyTorch's."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from modellint.destinations.coreml.mil.executor import Executor, UnknownOperations
from operation_tests import relative
from truth import ROUTES, TooSlow, ct, exported, first_line, limited, quiet, tensor_types, traced

PRECISIONS = {"fp32": ct.precision.FLOAT32, "fp16": ct.precision.FLOAT16}
SEEDS = 4
SECONDS = 600


def executed(
    model: nn.Module,
    args: tuple[Any, ...],
    target: str | None,
    precisions: tuple[str, ...] = tuple(PRECISIONS),
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What comes of the model by each route and precision.

    Args:
        model: In evaluation mode.
        args: The sample.
        target: The deployment target, or ``None`` for `ct.convert`'s own.
        precisions: Of the programs.
        known: An earlier verdict of ``agreement.py``; routes that do not convert by it are not tried.
    """
    found: dict[str, Any] = {}
    kept = copy.deepcopy(model.state_dict())
    with quiet():
        samples = list(samples_of(model, args))
    for route in ROUTES:
        if known is not None and not known.get(route, {}).get("truth", {}).get("converts", True):
            found[route] = {"converts": False, "message": known[route]["truth"].get("message", "")}
            continue
        try:
            with quiet(), limited(SECONDS):
                program, types = _captured(model, args, route)
        except (Exception, TooSlow) as error:
            found[route] = {"converts": False, "message": first_line(error)}
            continue
        found[route] = {}
        for name in precisions:
            found[route][name] = _one(program, types, target, name, samples, route)
            # A pass negates in place what a convolution's bias absorbs, and that is the model's own buffer.
            model.load_state_dict(kept)
    return found


def _captured(model: nn.Module, args: tuple[Any, ...], route: str) -> tuple[Any, Any]:
    if route == "trace":
        return traced(model, args), tensor_types(args)
    return exported(model, args), None


def _one(
    program: Any,
    types: Any,
    target: str | None,
    precision: str,
    samples: list[tuple[list[Tensor], list[Tensor]]],
    route: str,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "compute_precision": PRECISIONS[precision],
        "skip_model_load": True,
        "convert_to": "mlprogram",
    }
    if types is not None:
        options["inputs"] = types
    if target is not None:
        options["minimum_deployment_target"] = ct.target[target]
    elif precision == "fp16":
        del options["convert_to"]
    start = time.perf_counter()
    try:
        with quiet(), limited(SECONDS):
            package = converted(program, options, route)
    except (Exception, TooSlow) as error:
        return {"converts": False, "message": first_line(error)}
    row: dict[str, Any] = {"converts": True, "conversion": time.perf_counter() - start}
    try:
        run = Executor(package._mil_program)
        # An output may be there twice, by one name.
        names = [variable.name for variable in package._mil_program.functions["main"].outputs]
    except UnknownOperations as error:
        return {**row, "unknown": list(error.names)}
    except Exception as error:
        return {**row, "raised": first_line(error)}
    half = any(one.dtype in (torch.float16, torch.bfloat16) for _, wanted in samples for one in wanted)
    errors: list[float | None] = []
    noises: list[float] = []
    for inputs, wanted in samples:
        for state in run.states.values():
            state.zero_()
        start = time.perf_counter()
        try:
            with limited(SECONDS):
                results = run(dict(zip(run.inputs, inputs, strict=True)))
                got = [results[name] for name in names]
        except (Exception, TooSlow) as error:
            return {**row, "raised": first_line(error), "at": len(errors)}
        row["execution"] = time.perf_counter() - start
        worst, noise, said = _compared(got, wanted)
        errors.append(worst if math.isfinite(worst) else None)
        noises.append(noise)
        if said and "said" not in row:
            row["said"] = said
    return {**row, "errors": errors, "half": half, "noise": max(noises, default=0.0)}


def converted(program: Any, options: dict[str, Any], route: str) -> Any:
    """The package; of a program of ``torch.export`` after all decompositions, where it does not convert without them."""
    if route == "trace":
        return ct.convert(program, **options)
    try:
        return ct.convert(program.run_decompositions({}), **options)
    except Exception:
        return ct.convert(program.run_decompositions(), **options)


def samples_of(model: nn.Module, args: tuple[Any, ...]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Inputs and outputs: of the sample, and of ones with the sample's numbers in other orders and half as large.

    That keeps what a model demands of its inputs, where it demands something; ascending numbers stay so. States begin anew
    each time.
    """
    # With the versions of the modules in it, that some ask for.
    kept = copy.deepcopy(model.state_dict())
    for seed in range(SEEDS):
        chance = torch.Generator().manual_seed(seed)
        given = args if seed == 0 else _other(args, chance, 0.5 if seed == 2 else 1.0)
        inputs = [value.clone() for value in tensors(given)]
        try:
            torch.manual_seed(0)
            outputs = [value.clone() for value in tensors(model(*given))]
        except Exception:
            if seed == 0:
                raise
            continue
        finally:
            model.load_state_dict(kept)
        yield inputs, outputs


def _other(value: Any, chance: torch.Generator, scale: float) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_other(part, chance, scale) for part in value)
    if not isinstance(value, Tensor):
        return value
    if value.dtype == torch.bool:
        return torch.randint(0, 2, value.shape, generator=chance).bool()
    flat = value.reshape(-1)[torch.randperm(value.numel(), generator=chance)].reshape(value.shape)
    if value.dim() and value.shape[-1] > 3 and bool((value.diff() >= 0).all()):
        flat = flat.sort(-1).values
    return flat * scale if flat.is_floating_point() else flat


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of nested containers, in order."""
    match value:
        case Tensor():
            yield value.detach()
        case list() | tuple():
            for part in value:
                yield from tensors(part)
        case Mapping():
            for part in value.values():
                yield from tensors(part)
        case int() | float():
            yield torch.tensor(value)


def _compared(got: list[Any], wanted: list[Tensor]) -> tuple[float, float, str]:
    """The largest error over the scale of its output, the noise over the signal, and what is wrong beside numbers."""
    if len(got) != len(wanted):
        return math.inf, math.inf, f"{len(got)} outputs for {len(wanted)}"
    worst, noise, said = 0.0, 0.0, ""
    for at, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(ours, Tensor):
            return math.inf, math.inf, f"output {at} is a list"
        if ours.shape != theirs.shape and (ours.numel() != 1 or theirs.numel() != 1):
            return math.inf, math.inf, f"output {at}: shape {tuple(ours.shape)} for {tuple(theirs.shape)}"
        if not ours.numel():
            continue
        first = ours.reshape(theirs.shape).numpy().astype(np.float64)
        second = theirs.numpy().astype(np.complex128 if theirs.is_complex() else np.float64)
        error = relative(first, second)
        if not math.isfinite(error):
            said = said or f"output {at}: {first.ravel()[:5].tolist()} for {second.ravel()[:5].tolist()}"
        worst = max(worst, error)
        power = float(np.square(np.abs(second)).sum())
        noise = max(noise, float(np.square(np.abs(first - second)).sum()) / power if power else 0.0)
    return worst, noise, said
