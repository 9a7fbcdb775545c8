"""``CustomPReLU`` against ``nn.PReLU``: bits of values, gradients, state; and that coremltools converts it."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from dataclasses import dataclass
from math import prod
from random import Random

import coremltools
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import modellint
from modellint.nn import CustomPReLU
from modellint.nn.custom_prelu_source import custom_prelu_text
from modellint.results.diagnostic import Diagnostic
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
LAYOUTS = ("contiguous", "channels_last", "permuted", "sliced", "expanded")


def specials(dtype: torch.dtype) -> torch.Tensor:
    """Zeros, infinities, NaN, ones, and the ends of the normal and subnormal numbers, of both signs."""
    info = torch.finfo(dtype)
    inf, nan = float("inf"), float("nan")
    # The smallest subnormal, whose bits are those of the integer 1, and the largest.
    ends = torch.tensor([1], dtype=BITS[dtype]).view(dtype).item(), info.smallest_normal * (1 - info.eps)
    positive = (0.0, inf, nan, 1.0, 0.25, info.max, info.smallest_normal, *ends)
    return torch.tensor([sign * value for value in positive for sign in (1, -1)], dtype=dtype)


@dataclass(frozen=True)
class Case:
    """One call: the input as it lies in memory, the slopes, and the gradient that comes back."""

    layout: str
    x: torch.Tensor
    slopes: torch.Tensor
    upstream: torch.Tensor


@st.composite
def values(draw: st.DrawFn, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Numbers of every kind: special ones, any bits at all, and such as networks have."""
    if not count:
        return torch.empty(0, dtype=dtype)
    width = torch.finfo(dtype).bits // 8
    # Hypothesis's own bytes are mostly simple ones; the others cannot be shrunk.
    size = count * (width + 1)
    seed = draw(st.none() | st.integers(0, 2**32))
    drawn = draw(st.binary(min_size=size, max_size=size)) if seed is None else Random(seed).randbytes(size)
    raw, kinds = bytearray(drawn[count:]), torch.tensor(list(drawn[:count]))
    bits = torch.frombuffer(raw, dtype=dtype).clone()
    known = specials(dtype)
    usual = (bits.view(torch.uint8).view(count, width)[:, 0].double() / 64 - 2).to(dtype)
    return torch.where(kinds % 4 == 0, known[(kinds // 4) % len(known)], torch.where(kinds % 4 == 1, bits, usual))


def laid_out(flat: torch.Tensor, shape: list[int], layout: str, order: list[int]) -> torch.Tensor:
    """The numbers as a tensor of a shape that lies in memory in a certain way."""
    x = flat.view(shape)
    rank = len(shape)
    if layout == "channels_last":
        return x.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "permuted":
        return x.permute(order).contiguous().permute([order.index(dim) for dim in range(rank)])
    if layout == "sliced":
        wide = torch.zeros([2 * size + 1 for size in shape], dtype=x.dtype)
        wide[tuple(slice(1, None, 2) for _ in shape)] = x
        return wide[tuple(slice(1, None, 2) for _ in shape)]
    if layout == "expanded":
        return x.select(order[0], 0).unsqueeze(order[0]).expand(shape) if x.numel() else x
    return x


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(list(BITS)))
    rank = draw(st.integers(1, 6))
    shape = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    if draw(st.integers(0, 19)) == 19:
        shape[0] = 0
    elif rank < 4:
        shape[-1] = draw(st.integers(1, 20))
    count = 1 if rank == 1 or draw(st.integers(0, 4)) == 4 else shape[1]
    layout = draw(st.sampled_from([name for name in LAYOUTS if rank > 1 or name != "channels_last"]))
    order = draw(st.permutations(range(rank)))
    flat = draw(values(dtype, prod(shape)))
    upstream = draw(values(dtype, prod(shape))).view(shape)
    return Case(layout, laid_out(flat, shape, layout, order), draw(values(dtype, count)), upstream)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same bits, any NaN being any other."""
    bits = BITS[one.dtype]
    nan = one.isnan() & other.isnan()
    return one.dtype == other.dtype and bool(((one.view(bits) == other.view(bits)) | nan).all())


def same_numbers(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal as numbers: 0 is -0, and NaN is NaN."""
    return one.dtype == other.dtype and bool(((one == other) | (one.isnan() & other.isnan())).all())


def within_rounding(case: Case, one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two sums of the slopes' gradients differ by no more than the order of adding up can make them."""
    if same_numbers(one, other):
        return True
    terms = torch.where(case.x > 0, 0.0, case.x).double() * torch.where(case.x > 0, 0.0, case.upstream).double()
    dims = [dim for dim in range(case.x.dim()) if dim != 1] if len(case.slopes) > 1 else list(range(case.x.dim()))
    size = terms.abs().sum(dims).reshape(-1)
    info = torch.finfo(case.x.dtype)
    rounding = case.x.numel() * info.eps * size + case.x.numel() * info.smallest_normal * info.eps
    close = (one.double() - other.double()).abs() <= rounding
    # Where the terms can overflow it depends on the order whether they do.
    return bool((close | (size >= info.max * (1 - info.eps)) | (one.isnan() & other.isnan()) | (one == other)).all())


def strides(x: torch.Tensor) -> list[int]:
    """Of dimensions that have more than one element: the others' say nothing."""
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1] if x.numel() else []


def run(cls: type[nn.PReLU], case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The value, the input's gradient and the slopes'."""
    module = cls(len(case.slopes), dtype=case.x.dtype)
    with torch.no_grad():
        module.weight.copy_(case.slopes)
    x = case.x.detach().requires_grad_()
    y = module(x)
    x_gradient, gradient = torch.autograd.grad(y, [x, module.weight], case.upstream)
    return y.detach(), x_gradient, gradient


def compare(case: Case) -> bool:
    """Assert what is promised; whether the slopes' gradients are equal even."""
    value, x_gradient, gradient = run(nn.PReLU, case)
    our_value, our_x_gradient, our_gradient = run(CustomPReLU, case)
    assert our_value.shape == value.shape
    assert strides(our_value) == strides(value)
    assert same_bits(our_value, value)
    assert same_numbers(our_x_gradient, x_gradient)
    assert within_rounding(case, our_gradient, gradient)
    return same_numbers(our_gradient, gradient)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases())
def test_it_is_prelu(case: Case) -> None:
    compare(case)


@pytest.mark.parametrize("near", ["relu", "clamp", "at zero", "one where"])
def test_the_comparison_tells_near_misses(near: str) -> None:
    def forward(self: nn.PReLU, x: torch.Tensor) -> torch.Tensor:
        slope = self.weight
        if near == "relu":
            return torch.relu(x) - slope * torch.relu(-x)
        if near == "clamp":
            return x.clamp(min=0) + slope * x.clamp(max=0)
        if near == "at zero":
            return torch.where(x >= 0, x, slope * torch.where(x >= 0, 0.0, x))
        return torch.where(x > 0, x, slope * x)

    case = Case("contiguous", torch.tensor([0.0, -1.0, float("inf")]), torch.tensor([0.5]), torch.ones(3))
    other = type("Near", (nn.PReLU,), {"forward": forward})
    want, found = run(nn.PReLU, case), run(other, case)
    assert not all(same_numbers(one, two) for one, two in zip(want, found, strict=True))


def test_a_scalar() -> None:
    for value in (2.0, -2.0):
        assert torch.equal(CustomPReLU()(torch.tensor(value)), nn.PReLU()(torch.tensor(value)))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_refuses_slopes_where_there_is_no_dimension_for_them(shape: tuple[int, ...]) -> None:
    for cls in (nn.PReLU, CustomPReLU):
        with pytest.raises(RuntimeError):
            cls(3)(torch.zeros(shape))


def test_is_built_and_kept_as_prelu_is() -> None:
    assert inspect.signature(CustomPReLU) == inspect.signature(nn.PReLU)
    ours, theirs = CustomPReLU(3, 0.5, dtype=torch.float64), nn.PReLU(3, 0.5, dtype=torch.float64)
    assert ours.extra_repr() == theirs.extra_repr()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == ["weight"]
    assert torch.equal(ours.weight, theirs.weight)
    with torch.no_grad():
        ours.weight.zero_()
    ours.reset_parameters()
    assert torch.equal(ours.weight, theirs.weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_keeps_the_type_of_autocast(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 4, dtype=dtype)
    with torch.autocast("cpu", dtype):
        ours, theirs = CustomPReLU(3)(x), nn.PReLU(3)(x)
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


def test_scripts() -> None:
    for shape in ((2, 3), (2, 3, 4), (2, 3, 4, 5)):
        x = torch.randn(shape)
        assert torch.equal(torch.jit.script(CustomPReLU(3))(x), nn.PReLU(3)(x))


# The text that fixes write


@pytest.mark.parametrize("names", [("nn", "torch"), ("torch.nn", "torch"), ("n", "th")])
def test_text_is_the_class(names: tuple[str, str]) -> None:
    nn_name, torch_name = names
    made: dict[str, type[nn.PReLU]] = {}
    head = f"import torch as {torch_name}\n" + (f"import torch.nn as {nn_name}\n" if "." not in nn_name else "")
    exec(head + custom_prelu_text(nn_name, torch_name), made)
    x = torch.randn(2, 3, 4)
    assert torch.equal(made["CustomPReLU"](3)(x), CustomPReLU(3)(x))


def test_text_is_the_source() -> None:
    assert custom_prelu_text() == inspect.getsource(CustomPReLU).replace("  # noqa: A002, D102", "")


MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, 4, 2), nn.PReLU(4))
        self.fc = nn.Linear(5, 4)
        self.act = nn.PReLU(num_parameters=4, init=0.1)

    def forward(self, x):
        return self.conv(x).flatten(2), self.act(self.fc(x.mean(1)))
"""


def test_a_fixed_model_does_the_same_with_the_same_weights() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        return modellint.check_source(source.text).diagnostics

    fixed = fix_text(SourceText(MODEL), check)
    assert (fixed.remaining, fixed.applied, fixed.problem) == ((), {"OPS004": 2}, None)
    nets: list[nn.Module] = []
    for text in (MODEL, fixed.text):
        made: dict[str, type[nn.Module]] = {}
        exec(text, made)
        nets.append(made["Net"]())
    before, after = nets
    with torch.no_grad():
        for weight in before.parameters():
            weight.normal_()
    after.load_state_dict(before.state_dict())
    x = torch.randn(2, 3, 5)
    for one, other in zip(before(x), after(x), strict=True):
        assert torch.equal(one, other)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import modellint
import modellint.nn.custom_prelu_source
modellint.nn.custom_prelu_source.custom_prelu_text()
try:
    modellint.nn.CustomPReLU
except ImportError as error:
    print(error)
"""


def test_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert (
        done.stdout == "modellint.nn.CustomPReLU needs PyTorch, which is not installed: pip install 'modellint[live]'\n"
    )


def test_without_import_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", "import modellint; print(modellint.nn.CustomPReLU(2))"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == "CustomPReLU(num_parameters=2)\n"


# Core ML


def convert(module: nn.Module, rank: int, route: str) -> object:
    x = torch.randn([2, 3, 4, 5, 6][:rank])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if route == "trace":
            inputs = [coremltools.TensorType(shape=x.shape)]
            return coremltools.convert(torch.jit.trace(module, x), inputs=inputs, convert_to="mlprogram")
        return coremltools.convert(torch.export.export(module, (x,)).run_decompositions({}), convert_to="mlprogram")


def trained(cls: type[nn.PReLU]) -> nn.PReLU:
    """With slopes that differ, as they do once trained."""
    module = cls(3).eval()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([0.1, -0.5, 0.75]))
    return module


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_converts(rank: int, route: str) -> None:
    assert convert(trained(CustomPReLU), rank, route) is not None


@pytest.mark.parametrize("route", ["trace", "export"])
def test_prelu_itself_does_not_convert_at_rank_5(route: str) -> None:
    """The reason for all this; the ranks 2 and 3 are lifted in coming versions of coremltools."""
    with pytest.raises(ValueError, match="alpha"):
        convert(trained(nn.PReLU), 5, route)
