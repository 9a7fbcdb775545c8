"""Probes: small modules with sample inputs for every operator and layer in PyTorch's own databases of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

_CASTS = {
    "bfloat16",
    "bool",
    "byte",
    "cdouble",
    "cfloat",
    "chalf",
    "char",
    "double",
    "float",
    "half",
    "int",
    "long",
    "short",
}
_DTYPES = (torch.float32, torch.int64, torch.bool)


@dataclass(frozen=True)
class Sample:
    """One way to call an API: the values, and the tensors among them in their order."""

    call: Callable[..., Any]
    values: Any
    modules: tuple[nn.Module, ...] = ()


@dataclass
class Api:
    """One public name (``torch.fmod``, ``torch.Tensor.fmod_``, ``torch.nn.Hardshrink``) and ways to call it."""

    name: str
    sources: list[Callable[[int], Iterator[Sample]]] = field(default_factory=list)
    twin: str | None = None
    """The function that the database says a method or an alias stands for."""

    def samples(self, most: int) -> Iterator[Sample]:
        """At most so many samples of each source and dtype."""
        for source in self.sources:
            yield from source(most)


class Probe(nn.Module):
    """A module that makes one call on its inputs; all tensors are its inputs, or only the first, the others being buffers."""

    def __init__(self, sample: Sample, *, inplace: bool, only_first: bool) -> None:
        super().__init__()
        leaves, self._spec = pytree.tree_flatten(sample.values)
        self._call = sample.call
        self._inplace = inplace
        self.parts = nn.ModuleList(sample.modules)
        self._fixed: dict[int, Any] = {}
        self.inputs: list[torch.Tensor] = []
        self._places: list[tuple[int, bool]] = []
        for at, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.dim() and not (only_first and self._places):
                # Core ML has no Boolean inputs.
                boolean = leaf.dtype is torch.bool
                self._places.append((at, boolean))
                self.inputs.append(leaf.float() if boolean else leaf.detach().clone())
            elif isinstance(leaf, torch.Tensor):
                self.register_buffer(f"fixed_{at}", leaf.detach().clone())
            else:
                self._fixed[at] = leaf
        self._count = len(leaves)
        self._made = not self.inputs
        self.takes_inputs = not self._made
        if self._made:
            self.inputs = [torch.ones(2, 3)]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Make the call; give back the tensors among its results, complex ones by their real part."""
        leaves: list[Any] = [self._fixed.get(at) for at in range(self._count)]
        for at in range(self._count):
            if hasattr(self, f"fixed_{at}"):
                leaves[at] = getattr(self, f"fixed_{at}")
        if not self._made:
            for tensor, (at, boolean) in zip(tensors, self._places, strict=True):
                leaves[at] = tensor != 0 if boolean else tensor
        if self._inplace and isinstance(leaves[0], torch.Tensor):
            leaves[0] = leaves[0].clone()
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        result = self._call(*args, **kwargs)
        outputs = [part for part in pytree.tree_leaves(result) if isinstance(part, torch.Tensor)]
        if not outputs:
            raise TypeError("the result holds no tensor")
        # An output that is an input as it came, or that hangs on no input, is refused for what it is.
        outputs = [torch.real(part) if part.is_complex() else part for part in outputs]
        if self._made:
            outputs = [tensors[0].sum() + part.sum() for part in outputs]
        return tuple(outputs)


def _resolve(name: str) -> Any:
    value: Any = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def apis() -> dict[str, Api]:
    """All APIs by name, functions before the methods that stand for them."""
    # By name: a type checker that follows these reads for minutes.
    op_db = import_module("torch.testing._internal.common_methods_invocations").op_db
    module_db = import_module("torch.testing._internal.common_modules").module_db
    by_name: dict[str, Api] = {}

    def add(name: str, call: Any, info: Any, twin: str | None) -> None:
        if callable(call) and not isinstance(call, torch.dtype):
            api = by_name.setdefault(name, Api(name, twin=twin if twin != name else None))
            api.sources.append(lambda most: _op_samples(info, call, most))

    for info in op_db:
        main = f"torch.{info.name}"
        own = _resolve(main)
        if info.name in _CASTS:
            own = None
        twin = main if callable(own) and not isinstance(own, torch.dtype) else None
        if twin is not None:
            add(main, own, info, None)
        last = info.name.rpartition(".")[2]
        method = getattr(torch.Tensor, last, None) if info.method_variant is not None or twin is None else None
        add(f"torch.Tensor.{last}", method, info, twin)
        if info.inplace_variant is not None:
            add(f"torch.Tensor.{last}_", getattr(torch.Tensor, last + "_", None), info, twin)
        for alias in info.aliases:
            add(f"torch.{alias.name}", _resolve(f"torch.{alias.name}"), info, twin)
            last = alias.name.rpartition(".")[2]
            if alias.method_variant is not None:
                add(f"torch.Tensor.{last}", getattr(torch.Tensor, last, None), info, twin)
            if alias.inplace_variant is not None:
                add(f"torch.Tensor.{last}_", getattr(torch.Tensor, last + "_", None), info, twin)
    for module in module_db:
        name = f"torch.nn.{module.module_cls.__name__}"
        if not name.startswith("torch.nn.Lazy") and getattr(nn, module.module_cls.__name__, None) is module.module_cls:
            api = by_name.setdefault(name, Api(name))
            api.sources.append(lambda most, module=module: _module_samples(module, 2 * most))  # type: ignore[misc]
    for name, sample in _more():
        api = by_name.setdefault(name, Api(name))
        api.sources.append(lambda most, sample=sample: iter((sample,)))  # type: ignore[misc]
    return {name: api for name, api in by_name.items() if "__" not in name and "._" not in name}


def _first_dtypes(supported: Iterable[torch.dtype]) -> list[torch.dtype]:
    known = set(supported)
    return [dtype for dtype in _DTYPES if dtype in known] or [d for d in (torch.complex64,) if d in known]


def _op_samples(info: Any, call: Callable[..., Any], most: int) -> Iterator[Sample]:
    for dtype in _first_dtypes(info.dtypes):
        torch.manual_seed(0)
        try:
            samples = (((sample.input, *sample.args), sample.kwargs) for sample in info.sample_inputs("cpu", dtype))
            for values in islice(filter(_holds_numbers, samples), most):
                yield Sample(call, values)
        except Exception:
            continue


def _holds_numbers(values: Any) -> bool:
    """Whether no tensor is empty: Core ML has no tensors of that kind."""
    return all(leaf.numel() for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))


def _module_samples(module: Any, most: int) -> Iterator[Sample]:
    torch.manual_seed(0)
    try:
        samples = module.module_inputs_func(module, "cpu", torch.float32, requires_grad=False, training=False)
    except Exception:
        return
    for sample in islice(samples, most):
        construction, call = sample.constructor_input, sample.forward_input
        if call is None:
            continue
        try:
            layer = module.module_cls(*construction.args, **construction.kwargs).eval()
        except Exception:
            continue
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
        yield Sample(layer, (call.args, call.kwargs), (layer,))


def _more() -> Iterator[tuple[str, Sample]]:
    """Samples for names that the database leaves out."""
    torch.manual_seed(0)
    image, rows, square = torch.randn(2, 4, 6, 6), torch.randn(3, 5), torch.randn(4, 4) + 4 * torch.eye(4)
    patches, ids = torch.randn(2, 16, 9), torch.randint(0, 3, (2, 3))
    pooled, places = nn.functional.max_pool2d(image, 2, return_indices=True)
    calls: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
        ("torch.slogdet", (square,), {}),
        ("torch.Tensor.slogdet", (square,), {}),
        ("torch.Tensor.hardshrink", (rows,), {}),
        ("torch.Tensor.prelu", (rows, torch.full((1,), 0.25)), {}),
        ("torch.Tensor.relu", (rows,), {}),
        ("torch.Tensor.relu_", (rows,), {}),
        ("torch.relu", (rows,), {}),
        ("torch.selu", (rows,), {}),
        ("torch.celu", (rows,), {}),
        ("torch.rrelu", (rows,), {}),
        ("torch.threshold", (rows, 0.1, 0.2), {}),
        ("torch.Tensor.copy_", (rows, rows + 1), {}),
        ("torch.Tensor.zero_", (rows,), {}),
        ("torch.Tensor.type_as", (rows, rows), {}),
        ("torch.Tensor.fill_diagonal_", (square, 0.0), {}),
        ("torch.Tensor.bernoulli_", (rows, 0.5), {}),
        ("torch.Tensor.random_", (rows,), {}),
        ("torch.bernoulli", (rows.sigmoid(),), {}),
        ("torch.poisson", (rows.abs(),), {}),
        ("torch.binomial", (rows.abs().round(), rows.sigmoid()), {}),
        ("torch.frobenius_norm", (rows, 1), {}),
        ("torch.nuclear_norm", (rows,), {}),
        ("torch.hann_window", (8,), {}),
        ("torch.hamming_window", (8,), {}),
        ("torch.blackman_window", (8,), {}),
        ("torch.bartlett_window", (8,), {}),
        ("torch.kaiser_window", (8,), {}),
        ("torch.dropout", (rows, 0.5, False), {}),
        ("torch.embedding", (rows, ids), {}),
        ("torch.nn.functional.affine_grid", (torch.randn(2, 2, 3), (2, 3, 4, 4)), {"align_corners": False}),
        ("torch.nn.functional.dropout1d", (rows, 0.5, False), {}),
        ("torch.nn.functional.fold", (patches, (6, 6), 2), {"stride": 2}),
        ("torch.nn.functional.gumbel_softmax", (rows,), {}),
        ("torch.nn.functional.lp_pool1d", (image[0], 2, 2), {}),
        ("torch.nn.functional.lp_pool2d", (image, 2, 2), {}),
        ("torch.instance_norm", (image, None, None, None, None, True, 0.1, 1e-5, False), {}),
        ("torch.native_channel_shuffle", (image, 2), {}),
        ("torch.kl_div", (rows.log_softmax(1), rows.softmax(1)), {}),
        ("torch.conv_tbc", (torch.randn(5, 2, 3), torch.randn(2, 3, 4), torch.randn(4)), {}),
        ("torch.special.gammainc", (rows.abs(), rows.abs()), {}),
        ("torch.special.gammaincc", (rows.abs(), rows.abs()), {}),
    )
    for name, args, kwargs in calls:
        call = _resolve(name)
        if callable(call):
            yield name, Sample(call, (args, kwargs))
    layers: tuple[tuple[nn.Module, tuple[Any, ...]], ...] = (
        (nn.AlphaDropout(), (rows,)),
        (nn.FeatureAlphaDropout(), (rows,)),
        (nn.ChannelShuffle(2), (image,)),
        (nn.CosineSimilarity(), (rows, rows + 1)),
        (nn.PairwiseDistance(), (rows, rows + 1)),
        (nn.CrossMapLRN2d(2), (image,)),
        (nn.Dropout(), (rows,)),
        (nn.Dropout1d(), (rows,)),
        (nn.Dropout2d(), (image,)),
        (nn.EmbeddingBag(5, 4), (ids,)),
        (nn.Flatten(), (image,)),
        (nn.Fold((6, 6), 2, stride=2), (patches,)),
        (nn.Hardsigmoid(), (rows,)),
        (nn.MaxUnpool2d(2), (pooled, places)),
        (nn.PixelShuffle(2), (image,)),
        (nn.PixelUnshuffle(2), (image,)),
        (nn.RReLU(), (rows,)),
        (nn.SyncBatchNorm(4), (image,)),
        (nn.TripletMarginLoss(), (rows, rows + 1, rows - 1)),
        (nn.Unflatten(1, (2, 2)), (image,)),
        (nn.Unfold(2), (image,)),
        (nn.Upsample(scale_factor=2), (image,)),
        (nn.UpsamplingBilinear2d(scale_factor=2), (image,)),
        (nn.UpsamplingNearest2d(scale_factor=2), (image,)),
    )
    for layer, args in layers:
        frozen = layer.eval().requires_grad_(False)
        yield f"torch.nn.{type(layer).__name__}", Sample(frozen, (args, {}), (frozen,))
