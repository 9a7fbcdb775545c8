"""Search what coreai-torch converts wrongly without a word: every operator that PyTorch has samples of, many inputs each.

    python benchmarks/coreai_search.py run found.jsonl [--only PART ...] [--every N] [--after NAME]
    python benchmarks/coreai_search.py report found.jsonl

Each operator of PyTorch's own database is converted plainly in its forms: for five types of numbers, with its further
tensors as inputs and as constants, in place, and with the numbers of its call replaced by 0.1 and by 1e-5 where PyTorch
takes them (float16 holds neither exactly). Apple's interpreter runs each on up to 200 inputs: ordinary, small, large and
rounded numbers, and infinities, NaN and zeros of both signs apart. What is farther from PyTorch than PyTorch is from
itself in double precision is written down, with the first input that shows it.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from coreai_verdicts import _be_silent, interpreted
from ledger import Ledger

TYPES = (torch.float32, torch.float16, torch.int32, torch.int64, torch.bool)
INPUTS = 200
SAMPLES = {torch.float32: 3, torch.int64: 2}
"""Of an operator in a type, spread over PyTorch's; else one, in one form."""
DEATHS = 3
"""Programs of an operator that end the process, after which it is left."""
SECONDS = 60
"""For the programs of an operator."""


class Call(nn.Module):
    """One call, on tensors that are inputs and tensors that are constants."""

    def __init__(self, call: Callable[..., Any], values: Any, *, only_first: bool, in_place: bool) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten(values)
        self.call, self.in_place = call, in_place
        self.fixed: dict[int, Any] = {}
        self.places: list[int] = []
        self.inputs: list[torch.Tensor] = []
        self.count = len(leaves)
        for at, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                self.fixed[at] = leaf
            elif only_first and self.places:
                self.register_buffer(f"fixed_{at}", leaf.detach().clone())
            else:
                self.places.append(at)
                self.inputs.append(leaf.detach().clone().contiguous())

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves: list[Any] = [self.fixed.get(at) for at in range(self.count)]
        for name, buffer in self.named_buffers():
            leaves[int(name.rpartition("_")[2])] = buffer
        for tensor, at in zip(tensors, self.places, strict=True):
            leaves[at] = tensor
        if self.in_place:
            leaves[0] = leaves[0].clone()
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.call(*args, **kwargs)
        # An output that is an input as it came is refused for what it is.
        return tuple(
            part.clone() if any(part is tensor for tensor in tensors) else part
            for part in pytree.tree_leaves(result)
            if isinstance(part, torch.Tensor)
        )


def programs(info: Any) -> Iterator[tuple[str, Call]]:
    """The forms of an operator, each with a name."""
    seen: set[str] = set()
    for dtype in TYPES:
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(0)
        try:
            samples = list(itertools.islice(info.sample_inputs("cpu", dtype), 60))
        except Exception:
            continue
        values = [((sample.input, *sample.args), dict(sample.kwargs)) for sample in samples]
        values = [value for value in values if _ordinary(value)]
        most = SAMPLES.get(dtype, 1)
        step = max(1, len(values) // most)
        for at, value in enumerate(values[::step][:most]):
            forms: list[tuple[str, Callable[..., Any], Any]] = [("", info.op, value)]
            others = ((number, _with_numbers(value, number)) for number in (0.1, 1e-5))
            forms += [(f" numbers {number}", info.op, other) for number, other in others if other is not None]
            if info.inplace_variant is not None:
                forms.append((" in place", info.inplace_variant, value))
            if dtype not in SAMPLES:
                del forms[1:]
            tensors = sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
            for form, call, held in forms:
                for only_first in (False, True)[
                    : min(2, tensors) if dtype in SAMPLES and form in ("", " numbers 0.1") else 1
                ]:
                    name = f"{str(dtype)[6:]} {at}{form}{' constants' if only_first else ''}"
                    key = f"{dtype} {form} {only_first} {_shape(held)}"
                    if key in seen:
                        continue
                    seen.add(key)
                    try:
                        yield name, Call(call, held, only_first=only_first, in_place=" in place" in form).eval()
                    except Exception:
                        continue


def _ordinary(value: Any) -> bool:
    leaves = pytree.tree_leaves(value)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return (
        bool(tensors)
        and isinstance(leaves[0], torch.Tensor)
        and all(part.numel() and not part.is_complex() and part.layout is torch.strided for part in tensors)
    )


def _shape(value: Any) -> str:
    parts = [
        str(tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in pytree.tree_leaves(value)
    ]
    return " ".join(parts)


def _with_numbers(value: Any, number: float) -> Any | None:
    """The same call with other numbers, where it has numbers that are no size and no place."""
    leaves, spec = pytree.tree_flatten(value)
    changed = list(leaves)
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, float):
            changed[at] = leaf + number if number > 0.01 else number
        elif isinstance(leaf, int) and not isinstance(leaf, bool):
            changed[at] = number
    if all(one is other for one, other in zip(leaves, changed, strict=True)):
        return None
    return pytree.tree_unflatten(changed, spec)


def _fed(program: Call, generator: torch.Generator, kind: int) -> tuple[torch.Tensor, ...]:
    """Inputs of a kind: 0 as PyTorch's, 1 ordinary, 2 small, 3 large, 4 halves and whole numbers, 5 edges."""

    def floats(like: torch.Tensor) -> torch.Tensor:
        drawn = torch.randn(like.shape, generator=generator)
        if kind == 1:
            made = drawn * 2
        elif kind == 2:
            made = drawn * 10.0 ** -float(torch.randint(2, 7, (), generator=generator))
        elif kind == 3:
            made = drawn * 10.0 ** float(torch.randint(1, 5, (), generator=generator))
        elif kind == 4:
            made = (drawn * 6).round() / 2
        else:
            edges = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-38, 1.0])
            picked = edges[torch.randint(0, len(edges), like.shape, generator=generator)]
            made = torch.where(torch.rand(like.shape, generator=generator) < 0.4, picked, drawn)
        return made.to(like.dtype)

    floating = any(tensor.is_floating_point() for tensor in program.inputs)
    made = []
    for tensor in program.inputs:
        if kind == 0:
            made.append(tensor.clone())
        elif tensor.is_floating_point():
            made.append(floats(tensor))
        elif tensor.dtype is torch.bool:
            made.append(torch.rand(tensor.shape, generator=generator) < (0.5 if kind < 5 else 0.05))
        elif floating or kind == 1:
            # Places: what is there, in another order.
            flat = tensor.flatten()
            made.append(flat[torch.randperm(flat.numel(), generator=generator)].reshape(tensor.shape))
        else:
            most = {2: 10, 3: 100_000, 4: 2**24 + 1000, 5: 2**31 - 1}[kind]
            made.append(torch.randint(-most, most, tensor.shape, generator=generator).to(tensor.dtype))
    return tuple(made)


def judged(program: Call, inputs: int) -> dict[str, Any]:
    """How far the conversion is from PyTorch on each kind of inputs."""
    generator = torch.Generator().manual_seed(1)
    fed, wanted, exact = [], [], []
    kinds: list[int] = []
    double = copy.deepcopy(program).double() if any(t.is_floating_point() for t in program.inputs) else None
    for number in range(inputs):
        kind = 0 if number == 0 else 1 + number % 5
        args = _fed(program, generator, kind)
        try:
            with torch.no_grad():
                result = program(*(arg.clone() for arg in args))
                again = program(*(arg.clone() for arg in args))
                wide = result
                if double is not None:
                    try:
                        wide = double(*(arg.double() if arg.is_floating_point() else arg.clone() for arg in args))
                    except Exception:
                        wide = result
        except Exception:
            if number == 0:
                return {"skipped": "PyTorch"}
            continue
        if any(not torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(result, again, strict=True)):
            return {"skipped": "random"}
        if any(part.is_complex() for part in result) or not result:
            return {"skipped": "complex, or no tensor"}
        if fed and [part.shape for part in result] != [part.shape for part in wanted[0]]:
            continue
        fed.append(args), wanted.append(result), exact.append(wide), kinds.append(kind)
    try:
        with torch.no_grad():
            exported = torch.export.export(program, tuple(arg.clone() for arg in fed[0]))
    except Exception as error:
        return {"skipped": f"capture: {type(error).__name__}"}
    ran = interpreted(exported, fed)
    if isinstance(ran, dict):
        return {"refused": f"{ran['stage']}: {ran['message'][:120]}"}
    wrong: dict[int, list[Any]] = {}
    for args, results, want, wide, kind in zip(fed, ran, wanted, exact, kinds, strict=True):
        for at, (result, right, wider) in enumerate(zip(results, want, wide, strict=True)):
            if (told := _differs(torch.from_numpy(result), right, wider)) is not None:
                count, *first = wrong.setdefault(kind, [0])
                shown = [told, at, *([_text(arg) for arg in args] if not first else [])]
                wrong[kind] = [count + 1, *(first or shown)]
                break
    counted = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return {"inputs": counted, "wrong": {str(kind): value for kind, value in sorted(wrong.items())}}


def _differs(result: torch.Tensor, right: torch.Tensor, wide: torch.Tensor) -> str | None:
    if result.shape != right.shape:
        return f"shape {tuple(result.shape)} for {tuple(right.shape)}"
    if not right.is_floating_point():
        # Integers beyond 32 bits are known to be cut off.
        off = (result.long() != right.long()) & (right.long().abs() < 2**31)
        where = off.nonzero()
        return f"{result[off].flatten()[0].item()} for {right[off].flatten()[0].item()}" if len(where) else None
    eps = torch.finfo(right.dtype).eps
    got, want, wide = result.double(), right.double(), wide.double()
    if wide.shape != want.shape:
        wide = want
    same = (got == want) | (got.isnan() & want.isnan())
    slack = (
        50 * (want - wide).abs().nan_to_num(0.0, 0.0, 0.0)
        + 100 * eps * want.abs()
        + torch.finfo(right.dtype).tiny * 100
    )
    scale = want[want.isfinite()].abs().max() if want.isfinite().any() else 0.0
    off = ~same & ~((got - want).abs() <= slack + 3 * eps * scale)
    if not off.any():
        return None
    return f"{got[off].flatten()[0].item():.7g} for {want[off].flatten()[0].item():.7g} of {float(scale):.3g}"


def _text(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.flatten()[:8].tolist())[:120]}"


def one(name: str, form: str | None = None, inputs: int = INPUTS) -> list[dict[str, Any]]:
    """All programs of an operator, or one of them."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    began = time.monotonic()
    rows = []
    for told, program in programs(infos()[name]):
        if form is not None and told != form:
            continue
        if time.monotonic() - began > SECONDS:
            rows.append({"form": told, "skipped": "time"})
            break
        try:
            rows.append({"form": told, **judged(program, inputs)})
        except Exception as error:
            rows.append({"form": told, "skipped": f"{type(error).__name__}: {error}"[:100]})
    return rows


def forms(name: str) -> list[str]:
    """The names of an operator's programs."""
    warnings.simplefilter("ignore")
    return [told for told, _ in programs(infos()[name])]


def infos() -> dict[str, Any]:
    """PyTorch's own database of operators, by name and variant."""
    op_db = import_module("torch.testing._internal.common_methods_invocations").op_db
    return {f"{info.name}{'.' + info.variant_test_name if info.variant_test_name else ''}": info for info in op_db}


def run(arguments: argparse.Namespace) -> None:
    """Search, each operator in a process that may die."""
    ledger = Ledger(arguments.results)

    def asked(pool: ProcessPoolExecutor, *args: Any) -> Any:
        return pool.submit(*args).result(timeout=4 * SECONDS)

    pool = _pool()
    for at, name in enumerate(sorted(infos())):
        if (
            name in ledger.rows
            or at % arguments.every
            or name <= arguments.after
            or (arguments.only and not any(p in name for p in arguments.only))
        ):
            continue
        print(name, file=sys.stderr)
        try:
            rows = asked(pool, one, name)
        except (BrokenProcessPool, TimeoutError):
            pool = _again(pool)
            rows = []
            for form in asked(pool, forms, name):
                # Once more with PyTorch's own input, as it may be others that end the process.
                for inputs in (INPUTS, 1):
                    try:
                        rows += asked(pool, one, name, form, inputs)
                        break
                    except (BrokenProcessPool, TimeoutError) as error:
                        rows.append({"form": form, "died": f"{type(error).__name__} ({inputs} inputs)"})
                        pool = _again(pool)
                if sum("died" in row for row in rows) >= DEATHS:
                    break
        ledger.finish({"name": name, "programs": rows})
    pool.shutdown()


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_be_silent)


def _again(pool: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """Another process for the one that died, or hangs."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    return _pool()


def report(path: Path) -> None:
    """Counts, and every operator that is wrong on some kind of inputs."""
    rows = Ledger(path).rows
    every = [(name, program) for name, row in sorted(rows.items()) for program in row["programs"]]
    ran = [program for _, program in every if "wrong" in program]
    print(
        f"{len(rows)} operators, {len(every)} programs: {sum('refused' in p for _, p in every)} refused, "
        f"{sum('died' in p for _, p in every)} ended the process, {sum('skipped' in p for _, p in every)} not judged, "
        f"{len(ran)} ran, of which {sum(not p['wrong'] for p in ran)} right on all inputs, "
        f"{sum(any(kind != '5' for kind in p['wrong']) for p in ran)} wrong on ordinary ones"
    )
    for name, program in every:
        if program.get("wrong") or "died" in program:
            print(f"{name} [{program['form']}]", program.get("wrong") or program["died"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    search = commands.add_parser("run")
    search.add_argument("results", type=Path)
    search.add_argument("--only", nargs="*", default=[], help="parts of names")
    search.add_argument("--every", type=int, default=1, metavar="N", help="search one operator in N")
    search.add_argument("--after", default="", metavar="NAME", help="search the operators behind this one alone")
    commands.add_parser("report").add_argument("results", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "report":
        report(arguments.results)
    else:
        run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
