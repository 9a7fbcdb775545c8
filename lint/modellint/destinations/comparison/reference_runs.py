"""Reference runs: PyTorch's side of a comparison, a model run again and again from the same state."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.input_dependence import InputDependence
from modellint.destinations.comparison.order_of_equals import InOrder as EqualsInOrder
from modellint.destinations.comparison.side_effect_free_runs import Rest, at_rest
from modellint.destinations.comparison.stochastic_arithmetic import UNITS, Stochastic, in_double, portable_kernels
from modellint.destinations.comparison.sums_in_order import InOrder
from modellint.destinations.comparison.undefined_casts import OtherCasts
from modellint.live.capture.outputs import leaves_with_paths
from modellint.live.snapshot import unchanged

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs

STEPS = 3
"""Predictions in a row on which a model with a state is compared."""
NUDGE = 3e-7
"""How much rounding changes a number of float32, relative to it."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST_KEPT = 64 * 1024**2
"""Bytes of outputs that are kept for further comparisons."""
_DROPOUT = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_dropout",
    "feature_alpha_dropout",
)


class Raised(Exception):
    """The model raises on these inputs; the message is its own."""


class Changed(NamedTuple):
    """A piece of state that a run changed."""

    module: str
    attribute: str


class Row(NamedTuple):
    """Inputs of predictions in a row."""

    each: tuple[Inputs, ...]


class OutputCache:
    """Outputs of a model that comparisons of several programs with it share, by what it was run on; large ones are not kept."""

    def __init__(self) -> None:
        self._outputs: dict[Hashable, tuple[list[Tensor], tuple[str, ...]]] = {}
        self._changes: dict[Hashable, list[Changed]] = {}
        self._size = 0

    def outputs(self, key: Hashable) -> tuple[list[Tensor], tuple[str, ...]] | None:
        """The outputs of a run, each with where it was in what the model returned."""
        return self._outputs.get(key)

    def keep(self, key: Hashable, outputs: list[Tensor], paths: tuple[str, ...]) -> None:
        """Remember a run, as long as there is room."""
        size = sum(output.numel() * output.element_size() for output in outputs)
        if self._size + size <= _MOST_KEPT:
            self._size += size
            self._outputs[key] = list(outputs), paths

    def changes(self, key: Hashable, compute: Callable[[], list[Changed]]) -> list[Changed]:
        """What a run writes to."""
        if key not in self._changes:
            self._changes[key] = compute()
        return self._changes[key]


class Reference:
    """A model in evaluation mode that every run finds as it was, down to running averages and random generators."""

    def __init__(self, model: nn.Module, seed: int = 0, cache: OutputCache | None = None) -> None:
        self.model = model
        self.seed = seed
        self._cache = OutputCache() if cache is None else cache
        self.drops = True
        """Whether dropout that is on in evaluation mode drops."""
        self.weights: dict[str, Tensor] = {}
        """Parameters and buffers that runs have in the place of the model's own, by name."""
        self.paths: tuple[str, ...] = ()
        """Where each output was in what the last run returned."""
        self._rest: Rest | None = None

    def __call__(self, inputs: Inputs, seed: int = 0) -> list[Tensor]:
        """The outputs of one run, flat. Raises ``Raised``."""
        key = self._key(inputs, seed)
        cached = None if key is None else self._cache.outputs(key)
        if cached is not None:
            self.paths = cached[1]
            return list(cached[0])
        outputs = self.steps(inputs, 1, seed)[0]
        if key is not None:
            self._cache.keep(key, outputs, self.paths)
        return outputs

    def _key(self, inputs: Inputs, seed: int) -> Hashable | None:
        """What the outputs of a run depend on; None where that cannot be compared."""
        content = None if self.weights else fingerprint(inputs)
        return None if content is None else (content, self.seed + seed, self.drops)

    def steps(
        self, inputs: Inputs | Row, count: int, seed: int = 0, mode: AbstractContextManager[Any] | None = None
    ) -> list[list[Tensor]]:
        """The outputs of several runs in a row, each of which finds what the one before left. Raises ``Raised``.

        The runs are on the same inputs, or on those of a row, of which there have to be as many.
        """
        row = inputs.each[:count] if isinstance(inputs, Row) else (inputs,) * count
        outputs: list[list[Tensor]] = []
        with self._at_rest(row), _Without() if not self.drops else nullcontext(), mode or nullcontext():
            self._sow(seed)
            outputs.extend(self._run(step_inputs) for step_inputs in row)
        return outputs

    def buffers_after(self, row: Row, names: Iterable[str], seed: int = 0) -> dict[str, Tensor]:
        """Buffers as several runs in a row leave them, by name; with a ``seed`` in stochastic arithmetic. Raises ``Raised``."""
        with self._at_rest(row.each), Stochastic(seed, 1.0, self._kept()) if seed else nullcontext():
            self._sow(0)
            for inputs in row.each:
                self._run(inputs)
            buffers = dict(self.model.named_buffers())
            return {name: buffers[name].detach().clone() for name in names if name in buffers}

    def in_double(self, inputs: Inputs | Row, count: int = 1) -> list[Tensor] | None:
        """The last of several runs in a row, computed in double precision; None where the model does not run so."""
        with portable_kernels():
            return self._under(in_double(), inputs, count)

    def in_stochastic_arithmetic(
        self, inputs: Inputs | Row, count: int = 1, seed: int = 0, size: float = 1.0
    ) -> list[Tensor] | None:
        """The last of several runs in a row, each result changed by ``size`` unit roundoffs; None where that is not possible.

        Every other ``seed`` changes the inputs too.
        """
        if seed % 2:
            inputs = _rounded(inputs, count, seed, size)
        return self._under(Stochastic(seed, size, self._kept()), inputs, count)

    def with_sums_in_order(self, inputs: Inputs | Row, count: int = 1, seed: int = 0) -> list[Tensor] | None:
        """The last of several runs in a row, in which sums are made element after element; None where that is not possible.

        A ``seed`` but 0 changes the inputs by a rounding.
        """
        if seed:
            inputs = _rounded(inputs, count, seed, 1.0)
        return self._under(InOrder(), inputs, count)  # type: ignore[no-untyped-call]

    def undefined(self, inputs: Inputs | Row, expected: Sequence[Tensor], count: int = 1) -> list[Tensor] | None:
        """Which elements of the last of several runs depend on undefined casts; None where there are none, or it cannot be said."""
        casts = OtherCasts()
        others = self._under(casts, inputs, count)
        if not casts.met or others is None or [x.shape for x in others] != [x.shape for x in expected]:
            return None
        return [
            ~((value == changed) | (value.isnan() & changed.isnan()))
            for value, changed in zip(expected, others, strict=True)
        ]

    def in_other_orders(self, inputs: Inputs | Row, count: int = 1) -> list[list[Tensor]]:
        """The last of several runs in a row, with equal elements in other orders than `topk` and `sort` gave them; none without such."""
        runs = []
        for last_first in (False, True):
            mode = EqualsInOrder(last_first)
            outputs = self._under(mode, inputs, count)
            if mode.met and outputs is not None:
                runs.append(outputs)
        return runs

    def depending(self, inputs: Inputs) -> list[bool]:
        """Which outputs of a run depend on the values of its inputs; where that cannot be said, they all do."""
        own = [
            value for module in self.model.modules() for _, value in _attributes(module) if isinstance(value, Tensor)
        ]
        following = InputDependence(own)
        outputs = self._under(following, inputs, 1)
        return [True] * len(self.paths) if outputs is None else [following.depends(output) for output in outputs]

    def with_rounded_weights(self, inputs: Inputs | Row, count: int = 1, seed: int = 0) -> list[Tensor] | None:
        """The last of several runs in a row, each weight changed by as much as float16 may round it."""
        before = self.weights
        rounding = Stochastic(seed, UNITS[torch.float16] / UNITS[torch.float32])
        own = dict((*self.model.named_parameters(), *self.model.named_buffers()))
        self.weights = {name: rounding.changed(before.get(name, tensor).detach()) for name, tensor in own.items()}
        try:
            return self.steps(inputs, count)[-1]
        except Raised:
            return None
        finally:
            self.weights = before

    def _kept(self) -> frozenset[int]:
        return frozenset(weight.untyped_storage()._cdata for weight in self.model.parameters() if not weight.is_meta)

    def _under(self, mode: AbstractContextManager[Any], inputs: Inputs | Row, count: int) -> list[Tensor] | None:
        try:
            return self.steps(inputs, count, mode=mode)[-1]
        except Raised:
            return None

    @contextmanager
    def _at_rest(self, row: Sequence[Inputs]) -> Iterator[None]:
        """The model in evaluation mode, for runs on copies of inputs; between runs nobody changes it, so it is looked at once."""
        if self._rest is None:
            self._rest = Rest(self.model)
        leaves = pytree.tree_leaves([(step_inputs.args, dict(step_inputs.kwargs)) for step_inputs in row])
        # Objects such as caches are not copied with the tensors.
        objects = [leaf for leaf in leaves if not isinstance(leaf, (Tensor, *_PLAIN))]
        with self._rest.kept(), unchanged(*objects) if objects else nullcontext():
            yield

    @contextmanager
    def restored(self, inputs: Inputs) -> Iterator[None]:
        """The model in evaluation mode; on leaving it is as it was."""
        with at_rest(self.model, inputs):
            yield

    def _sow(self, seed: int) -> None:
        torch.manual_seed(self.seed + seed)
        random.seed(self.seed + seed)

    def _run(self, inputs: Inputs) -> list[Tensor]:
        args, kwargs = copied((inputs.args, dict(inputs.kwargs)))
        try:
            call = partial(torch.func.functional_call, self.model, self.weights) if self.weights else self._called
            returned = call(args, kwargs)
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            raise Raised(f"{type(error).__name__}: {text}" if text else type(error).__name__) from error
        tensors = [(path, leaf) for path, leaf in leaves_with_paths(returned) if isinstance(leaf, Tensor)]
        self.paths = tuple(pytree.keystr(path) for path, _ in tensors)
        # What is returned may be a buffer that the next run writes to.
        return [leaf.detach().clone() for _, leaf in tensors]

    def _called(self, args: Any, kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def written(self, inputs: Inputs) -> list[Changed]:
        """The attributes, of registered modules, that a run writes to, also where it writes what was there. Raises ``Raised``."""
        key = self._key(inputs, 0)
        return self._written(inputs) if key is None else self._cache.changes(key, partial(self._written, inputs))

    def _written(self, inputs: Inputs) -> list[Changed]:
        changed = []
        with self.restored(inputs):
            before = {
                (path, name): (value, _version(value))
                for path, module in self.model.named_modules()
                for name, value in _attributes(module)
            }
            self._sow(0)
            self._run(inputs)
            for path, module in self.model.named_modules():
                for name, value in _attributes(module):
                    known, version = before.get((path, name), (None, 0))
                    if isinstance(value, Tensor):
                        if value is not known or _version(value) != version:
                            changed.append(Changed(path, name))
                    elif type(value) is not type(known) or value != known:
                        changed.append(Changed(path, name))
        return changed


def fingerprint(inputs: Inputs) -> str | None:
    """A digest of what a model is called with; None where it is called with objects that may hold anything."""
    leaves, tree = pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))
    digest = hashlib.blake2b(str(tree).encode())
    for leaf in leaves:
        if type(leaf) is Tensor and leaf.layout is torch.strided and leaf.device.type == "cpu":
            content = leaf.detach().resolve_conj().resolve_neg()
            digest.update(f"{content.dtype} {tuple(content.shape)} {content.stride()} {leaf.requires_grad}".encode())
            digest.update(content.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif type(leaf) in _PLAIN:
            digest.update(f"{type(leaf)} {leaf!r}".encode())
        else:
            return None
    return digest.hexdigest()


def nudged(inputs: Inputs, seed: int = 0, size: float = NUDGE) -> Inputs:
    """The inputs with floats changed by about the rounding of float32, or another share of them."""
    draw = torch.Generator().manual_seed(seed)

    def nudge(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf
        return leaf * (1 + size * torch.randn(leaf.shape, generator=draw)).to(leaf.dtype)

    args, kwargs = mapped((inputs.args, dict(inputs.kwargs)), nudge)
    return inputs._replace(args=args, kwargs=kwargs)


def _rounded(inputs: Inputs | Row, count: int, seed: int, size: float) -> Row:
    """Inputs of several runs in a row, changed by so many unit roundoffs."""
    change = Stochastic(seed, size).changed
    row = inputs.each[:count] if isinstance(inputs, Row) else (inputs,) * count
    return Row(tuple(_with(step_inputs, change) for step_inputs in row))


def _with(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    args, kwargs = mapped((inputs.args, dict(inputs.kwargs)), change)
    return inputs._replace(args=args, kwargs=kwargs)


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A nested structure with its tensors replaced."""
    return pytree.tree_map(lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf, value)


def copied(value: Any) -> Any:
    """A nested structure with its tensors copied: a model may write to its inputs."""
    return mapped(value, lambda leaf: leaf.detach().clone())


def copied_inputs(inputs: Inputs) -> Inputs:
    """Inputs that may be written to."""
    args, kwargs = copied((inputs.args, dict(inputs.kwargs)))
    return inputs._replace(args=args, kwargs=kwargs)


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in (*module._parameters.items(), *module._buffers.items(), *vars(module).items()):
        if name != "training" and isinstance(value, (Tensor, int, float, str, bool)):
            yield name, value


def _version(value: Any) -> int:
    """Version counter: how many writes a tensor has seen; 0 for tensors of inference mode, which do not count them."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


class _Without(TorchFunctionMode):
    """Mode without dropout, which gives back its input, as in what coremltools makes of it."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "").rstrip("_") in _DROPOUT:
            return args[0] if args else (kwargs or {})["input"]
        return function(*args, **(kwargs or {}))
