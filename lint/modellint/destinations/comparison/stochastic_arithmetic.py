"""Rounding error of PyTorch itself: a model evaluated in double precision, and in stochastic arithmetic.

Stochastic arithmetic (Monte Carlo arithmetic; D. S. Parker, 1997) changes each result by a random amount of the size of its last
rounding. What differs between runs is what rounding decides, whatever the order in which a device adds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
UNITS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
"""The unit roundoff of each type: the largest relative error of one rounding to nearest."""
_TYPE = Tensor.dtype.__get__  # type: ignore[attr-defined]
_DRAWN = 2**20 - 3
_WHOLE = 2.0**24
"""Integers up to here are exact in float32."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class InDouble(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Double precision: every operator computes in float64 where the model computes in a narrower type.

    Tensors from outside, such as parameters, buffers and tensors in plain lists, are widened when they are first read; what is
    written to them goes to the wide copy alone, which later operators read.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._wide: dict[tuple[int, torch.dtype], tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator on widened tensors."""
        if torch.Tag.nondeterministic_seeded in func.tags and not any(
            isinstance(leaf, Tensor) for leaf in pytree.tree_leaves((args, kwargs))
        ):
            # The same numbers: a generator draws others in double precision.
            return pytree.tree_map(self.widened, func(*args, **(kwargs or {})))
        args, kwargs = pytree.tree_map(self.widened, (args, kwargs or {}))
        return func(*args, **kwargs)

    def widened(self, value: Any) -> Any:
        """An argument in double precision, as far as it is a tensor, or a type, of less."""
        if isinstance(value, Tensor):
            return self.wide(value) if value.dtype in _NARROW else value
        return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value

    def wide(self, tensor: Tensor) -> Tensor:
        """The float64 counterpart of a tensor; tensors that share memory have counterparts that do."""
        storage = tensor.untyped_storage()
        key = storage._cdata, tensor.dtype
        if key not in self._wide:
            with torch.no_grad():
                flat = tensor.detach().as_strided((storage.nbytes() // tensor.element_size(),), (1,), 0)
                # The tensor is kept too: its address stands for it.
                self._wide[key] = tensor, flat.double()
        return self._wide[key][1].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class MixedTypes(TorchFunctionMode):
    """Mixed precision: functions that refuse operands of several types, before they come to an operator, get widened ones.

    Convolutions, for instance, hold the type of their input against that of their bias; recurrent layers look at it in Python,
    which is told the wide type of all tensors.

    Args:
        mode: What widens, and is entered before this.
    """

    def __init__(self, mode: InDouble) -> None:
        super().__init__()
        self._mode = mode

    def __torch_function__(
        self, function: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function, and once more where it refuses."""
        kwargs = kwargs or {}
        if function == _TYPE:
            return self._mode.widened(function(*args))
        try:
            return function(*args, **kwargs)
        except RuntimeError:
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            if not any(tensor.dtype in _NARROW for tensor in tensors):
                raise
            args, kwargs = pytree.tree_map(self._mode.widened, (args, kwargs))
            return function(*args, **kwargs)


class Stochastic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Stochastic arithmetic in the model's own types.

    Args:
        seed: Of the random amounts.
        size: Their standard deviation, in unit roundoffs of the result's type.
        fixed: The storages, by their address, of what the model keeps.
    """

    def __init__(self, seed: int, size: float = 1.0, fixed: Collection[int] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draw = torch.Generator().manual_seed(seed)
        self._size = size
        self._fixed = fixed
        self._noise = _normal_numbers()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, and change what it rounds."""
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name in _SUMS:
            args = tuple(
                self._terms(arg)
                if isinstance(arg, Tensor)
                else pytree.tree_map(self._terms, arg)
                if isinstance(arg, list)
                else arg
                for arg in args
            )
        elif name in _ORDERED and not (kwargs or {}).get("stable"):
            args = (self._unequal(args[0]), *args[1:])
        result = func(*args, **(kwargs or {}))
        if name in _EXACT or not _rounds(func):
            return result
        if name == "gelu" and not func._schema.is_mutable:
            # `x / 2 * (1 + erf(…))`: below zero what is left of the sum is smaller than its rounding.
            return self._shifted(result, args[0].abs().nan_to_num(0.0, 0.0, 0.0))
        if name in _NORMS:
            values, *rest = result if isinstance(result, tuple) else (result,)
            return self._shifted(values) if not isinstance(result, tuple) else (self._shifted(values), *rest)
        if func._schema.is_mutable:
            for output in pytree.tree_leaves(result):
                if isinstance(output, Tensor) and output.dtype in _NARROW:
                    output.copy_(self.changed(output))
            return result
        if name in _ROOTS and isinstance(result, Tensor) and result.dtype is torch.float32:
            result = self._of_least(result)
        return self.changed(result) if isinstance(result, Tensor) else pytree.tree_map(self.changed, result)

    def changed(self, value: Any) -> Any:
        """A tensor changed by rounding; whole numbers, zeros, and what is not finite stay, as arithmetic on them is exact."""
        if not isinstance(value, Tensor) or value.dtype not in _NARROW or not value.numel():
            return value
        wide = value if value.dtype is torch.float32 else value.float()
        perturbed = torch.addcmul(wide, wide, self._drawn(wide.shape), value=self._size * UNITS[value.dtype])
        whole = wide == wide.round()
        low, high = wide.aminmax()
        if max(-float(low), float(high)) >= _WHOLE:
            whole &= (wide.abs() < _WHOLE) | wide.isinf()
        perturbed = torch.where(whole, wide, perturbed)
        return perturbed if value.dtype is torch.float32 else perturbed.to(value.dtype)

    def _of_least(self, root: Tensor) -> Tensor:
        """Root of what may lie below the normal numbers, of which devices keep fewer digits, or zero."""
        least = (self._drawn(root.shape).abs() * torch.finfo(torch.float32).tiny).sqrt()
        return torch.where(root != 0, torch.hypot(root, least), root)

    def _shifted(self, value: Tensor, scale: Tensor | None = None) -> Tensor:
        """Tensor with rounding noise at the size of its row, or of ``scale``: a scale and a shift are rounded in one step."""
        if value.dtype not in _NARROW or not value.numel():
            return value
        if scale is None:
            scale = value.abs().amax(-1, keepdim=True) if value.dim() else value.abs()
        noise = self._drawn(value.shape) * (self._size * UNITS[value.dtype])
        return (value + noise * scale).to(value.dtype)

    def _unequal(self, value: Tensor) -> Tensor:
        """Tensor with ties broken at random, as PyTorch leaves the order of equal elements open."""
        if value.dtype not in _NARROW:
            return value
        wide = value.float()
        tiny = self._drawn(wide.shape) * torch.finfo(torch.float32).tiny
        return (torch.addcmul(wide, wide, self._drawn(wide.shape), value=UNITS[value.dtype]) + tiny).to(value.dtype)

    def _terms(self, value: Any) -> Any:
        """Term of a sum, changed by rounding; what the model keeps is left alone, as its other factor is changed."""
        if isinstance(value, Tensor) and value.untyped_storage()._cdata in self._fixed:
            return value
        return self.changed(value)

    def _drawn(self, shape: torch.Size) -> Tensor:
        """Normally distributed numbers, read from a random place of one draw."""
        count = math.prod(shape)
        start = int(torch.randint(_DRAWN, (), generator=self._draw))
        if start + count <= _DRAWN:
            return self._noise[start : start + count].view(shape)
        return self._noise.roll(-start).repeat(-(-count // _DRAWN))[:count].view(shape)


@cache
def _normal_numbers() -> Tensor:
    """Normally distributed numbers, drawn once for all modes, as drawing takes longer than all that a small model computes."""
    return torch.randn(_DRAWN, dtype=torch.float32, device="cpu", generator=torch.Generator().manual_seed(0))


def _rounds(func: Any) -> bool:
    """Whether an operator makes new numbers: a view, or what returns nothing, does not."""
    returns = func._schema.returns
    aliases = [result.alias_info for result in returns if result.alias_info is not None]
    return bool(returns) and all(alias.is_write for alias in aliases)


_SUMS = _words(
    "mm addmm bmm baddbmm addmv mv dot linear convolution _convolution sum mean var std var_mean std_mean cumsum logcumsumexp "
    "norm linalg_vector_norm native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit_no_training "
    "cumprod prod avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "_scaled_dot_product_flash_attention_for_cpu logsumexp mkldnn_rnn_layer "
)
"""Operators that add up products: how far the sum is off depends on its terms, which are changed instead of it alone."""
_NORMS = _words("native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit_no_training")
"""Normalizations, which subtract numbers that may be larger than what is left."""
_ROOTS = _words("sqrt std")
"""Roots: of what lies below the normal numbers half the digits are left above them."""
_ORDERED = _words("topk sort kthvalue median nanmedian mode")
"""Operators that may choose among equal elements, unlike `argmax` and `max`, which give the first."""
_EXACT = _words(
    "clone copy _to_copy lift_fresh lift_fresh_copy cat stack where masked_fill masked_scatter index index_select gather take "
    "index_put _unsafe_index _index_put_impl index_copy scatter embedding fill zero relu clamp clamp_min clamp_max hardtanh "
    "maximum minimum max min amax amin aminmax abs neg sign floor ceil round trunc sort topk kthvalue median nanmedian mode "
    "cummax cummin max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d "
    "adaptive_max_pool3d flip roll constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
    "replication_pad2d replication_pad3d zeros ones full full_like zeros_like ones_like new_zeros new_ones new_full new_empty "
    "empty empty_like empty_strided new_empty_strided arange eye tril triu repeat im2col upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d pixel_shuffle pixel_unshuffle channel_shuffle one_hot scalar_tensor contiguous "
    "nan_to_num threshold diag_embed unfold_copy slice_scatter select_scatter diagonal_scatter repeat_interleave bernoulli "
    "rand randn randint randperm glu_jvp fmax fmin unique unique2 _unique2 select_backward alias_copy masked_select nonzero "
    "set resize "
)
"""Operators that move numbers or choose among them."""


@contextmanager
def in_double() -> Iterator[None]:
    """Double precision for all that a model computes."""
    with InDouble() as mode, MixedTypes(mode):
        yield


@contextmanager
def portable_kernels() -> Iterator[None]:
    """Scope without oneDNN, whose recurrent layers take float32 alone."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
