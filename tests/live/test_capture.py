"""One captured run: operators, calls, modules, places, and why it ended early."""

from __future__ import annotations

import copy
import importlib.util
import math
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from modellint.destinations.capture import torch_export
from modellint.live.capture.fake_tensor_run import capture
from modellint.live.capture.records import Run, TensorFact
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.settings import Destination

X = torch.randn(2, 3, 8, 8)


class Does(nn.Module):
    """Runs a function as its forward."""

    def __init__(self, function: Callable[..., Any], **state: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def run_of(model: nn.Module, *args: Any, has_values: bool = True, root: Path | None = None, **kwargs: Any) -> Run:
    root = root or Path(__file__).parent
    return capture(Subject(model, Inputs(args, kwargs), root, Destination(), has_values=has_values))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return self.pool(functional.relu(x))


def test_operators_calls_and_modules() -> None:
    model = nn.Sequential(Block(), nn.Flatten(), nn.Linear(24, 2))
    run = run_of(model, X)
    assert run.failure is None
    assert run.is_fake
    names = [operator.name for operator in run.operators]
    assert names == [
        "aten::convolution",
        "aten::relu",
        "aten::max_pool2d_with_indices",
        "aten::view",
        "aten::t",
        "aten::addmm",
    ]
    convolution = run.operators[0]
    assert [fact.name for fact in convolution.arguments[:3]] == ["input:0", "0.conv.weight", "0.conv.bias"]
    assert convolution.outputs[0].shape == (2, 6, 4, 4)
    assert convolution.outputs[0].strides == (96, 16, 4, 1)
    assert convolution.outputs[0].dtype == "float32"
    assert convolution.module == "0.conv"
    assert convolution.place is not None
    source = Path(__file__).read_text("utf-8").splitlines()
    assert source[convolution.place.span.row - 1].strip() == "x = self.conv(x)"
    assert [(call.name, call.module) for call in run.calls] == [
        ("torch.nn.functional.conv2d", "0.conv"),
        ("torch.nn.functional.relu", "0"),
        ("torch.nn.functional.max_pool2d", "0.pool"),
        ("torch.Tensor.flatten", "1"),
        ("torch.nn.functional.linear", "2"),
    ]
    assert [(call.path, call.depth) for call in run.modules] == [
        ("", 0),
        ("0", 1),
        ("0.conv", 2),
        ("0.pool", 2),
        ("1", 1),
        ("2", 1),
    ]
    assert run.modules[2].outputs.shape == (2, 6, 4, 4)
    assert run.output.shape == (2, 2)


def test_identities() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = x.view(2, -1)
        return x, y, self.weight, y.clone()

    given, viewed, weight, copied = run_of(Does(forward, weight=nn.Parameter(torch.ones(3))), X).output
    assert given.name == "input:0"
    assert weight.name == "weight"
    assert given.storage == viewed.storage
    assert given.tensor != viewed.tensor
    assert copied.storage not in (given.storage, weight.storage)


def test_named_and_nested_inputs() -> None:
    run = run_of(Does(lambda self, pair, *, mask: (pair[0] + pair[1]["x"]) * mask), (X, {"x": X}), mask=X > 0)
    assert run.failure is None
    assert run.operators[0].arguments[0].name == "input:0"
    assert run.operators[1].arguments[1].name == "input:mask"


def test_a_shared_layer_has_the_path_of_its_caller() -> None:
    layer = nn.Linear(8, 8)
    run = run_of(nn.Sequential(nn.Sequential(layer), nn.Sequential(layer)), X)
    assert [call.path for call in run.modules if call.depth == 2] == ["0.0", "1.0"]


def test_hidden_layers_are_seen_inside_their_owner() -> None:
    model = Does(lambda self, x: self.layers[0](x), layers=[nn.Linear(8, 4)])
    run = run_of(model, X)
    assert [call.depth for call in run.modules] == [0, 1]
    assert run.modules[1].identity == id(model.layers[0])  # type: ignore[index, operator, union-attr]
    assert {operator.module for operator in run.operators} == {""}


def test_all_refused_views_of_one_run() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        one = x.permute(0, 2, 3, 1).view(2, -1)
        two = x.transpose(2, 3).flatten(1).view(2, -1)
        return one + two + x.mT.view(2, -1) + x.view(2, 3, 64).view(2, -1)

    run = run_of(Does(forward), X)
    assert run.failure is None
    refused = [call for call in run.calls if call.refused is not None]
    assert [call.name for call in refused] == ["torch.Tensor.view"] * 2
    assert all("view size is not compatible" in (call.refused or "") for call in refused)


@st.composite
def views(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[int]]:
    """A shape, an order of its dimensions, their steps, and a shape with as many elements."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(shape))))
    steps = draw(st.lists(st.integers(1, 2), min_size=len(shape), max_size=len(shape)))
    left = math.prod((shape[at] + step - 1) // step for at, step in zip(order, steps, strict=True))
    target = []
    for _ in range(draw(st.integers(0, 3))):
        target.append(draw(st.sampled_from([size for size in range(1, left + 1) if left % size == 0])))
        left //= target[-1]
    return shape, list(order), steps, [*target, draw(st.sampled_from([left, -1]))]


@settings(max_examples=100, deadline=None)
@given(views())
def test_views_are_refused_exactly_where_pytorch_refuses_them(
    view: tuple[list[int], list[int], list[int], list[int]],
) -> None:
    shape, order, steps, target = view

    def strided(x: torch.Tensor) -> torch.Tensor:
        return x.permute(order)[tuple(slice(None, None, step) for step in steps)]

    try:
        strided(torch.zeros(shape)).view(target)
        is_refused = False
    except RuntimeError:
        is_refused = True
    run = run_of(Does(lambda self, x: strided(x).view(target)), torch.zeros(shape))
    assert run.failure is None
    assert any(call.refused is not None for call in run.calls) == is_refused


def test_a_real_run_refuses_the_same_views() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x.mT.view(2, -1) if x.sum() < 1e9 else x

    run = run_of(Does(forward), X)
    assert run.failure is None
    assert not run.is_fake
    assert [call.refused is not None for call in run.calls if call.name == "torch.Tensor.view"] == [True]


def test_nothing_is_allocated_and_nothing_changes() -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    run = run_of(model, torch.empty(1024, 3, 65536, 65536, device="meta"))
    assert run.output.shape == (1024, 64, 65536, 65536)
    assert model.training
    assert model[1].training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_evaluation_mode_and_no_gradients() -> None:
    seen: list[tuple[bool, bool]] = []
    model = Does(lambda self, x: seen.append((self.training, torch.is_grad_enabled())) or x)
    run_of(model, X)
    assert seen == []  # What a run appends is taken back.
    assert run_of(Does(lambda self, x: (x * int(self.training), x * int(torch.is_grad_enabled()))), X).failure is None
    run = run_of(nn.Dropout(), X)
    assert run.operators == ()


def test_state_that_a_run_leaves_behind() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.last = x
        self.log.append(x)
        self.steps += 1
        return x * self.steps

    model = Does(forward, count=0, log=[], steps=torch.zeros(()))
    names = list(vars(model))
    assert run_of(model, X).failure is None
    assert (model.count, model.log, list(vars(model))) == (0, [], names)
    assert model.steps.item() == 0  # type: ignore[operator, union-attr]


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: x * x.sum().item(),
        lambda self, x: x if x.sum() > 0 else -x,
        lambda self, x: x.nonzero(),
        lambda self, x: x[x > 0],
        lambda self, x: torch.from_numpy(x.numpy() * 2),
        lambda self, x: x * x.tolist()[0][0][0][0],
        lambda self, x: x * self.steps.add_(1).item(),
        lambda self, x: x.unique(),
        lambda self, x: x * torch.arange(8)[3].item(),
    ],
)
def test_code_that_asks_for_values_runs_on_them(function: Any) -> None:
    model = Does(function, steps=torch.zeros(()))
    x = X.clone()
    run = run_of(model, x)
    assert run.failure is None
    assert not run.is_fake
    assert model.steps.item() == 0  # type: ignore[operator, union-attr]
    assert torch.equal(x, X)
    without = run_of(model.to("meta"), X.to("meta"), has_values=False)
    assert without.failure is not None
    assert without.failure.kind == "data"


def test_small_state_keeps_its_values_in_a_fake_run() -> None:
    model = Does(
        lambda self, x: x[:, : int(self.sizes.prod())] * (1 if self.flag else 2),
        flag=torch.tensor(True),
        sizes=torch.tensor([1, 2]),
    )
    run = run_of(model, X)
    assert run.is_fake
    assert run.output.shape == (2, 2, 8, 8)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LSTM": (lambda: nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True), (2, 5, 8)),
    "GRU": (lambda: nn.GRU(8, 4), (5, 2, 8)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        (2, 5, 8),
    ),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), (2, 3, 8, 8)),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)), (2, 3, 8, 8)),
    "DataParallel": (lambda: nn.DataParallel(nn.Conv2d(3, 4, 3)), (2, 3, 8, 8)),
    "complex": (lambda: Does(lambda self, x: torch.fft.fft(x).abs()), (2, 8)),
    "attention": (lambda: Does(lambda self, x: functional.scaled_dot_product_attention(x, x, x)), (2, 2, 5, 8)),
    "autocast": (lambda: Does(_autocast, layer=nn.Linear(8, 8)), (2, 8)),
    "parameter data": (lambda: Does(_new_data, weight=nn.Parameter(torch.ones(1000))), (2, 1000)),
    "device of state": (lambda: Does(_device, weight=nn.Parameter(torch.ones(8))), (2, 8)),
}


def _autocast(self: Any, x: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return self.layer(x)


def _new_data(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.weight.data = self.weight.data * 2
    return x * self.weight


def _device(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x.to(self.weight.device) + torch.zeros(8, device=self.weight.device)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", list(MODULES))
def test_modules_of_all_kinds(name: str, device: str) -> None:
    make, shape = MODULES[name]
    model = make().to(device)
    run = run_of(model, torch.zeros(shape, device=device), has_values=device == "cpu")
    assert run.failure is None
    assert run.operators


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


@pytest.mark.parametrize(
    "model",
    [
        Does(lambda self, x: Doubled.apply(x)),
        Does(lambda self, x: torch.nested.nested_tensor([x[0], x[1]]) * 2),
        Does(lambda self, x: torch.sparse.mm(x[0, 0].to_sparse(), x[0, 0])),
        Does(lambda self, x: x.to_mkldnn().to_dense()),
        nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(3)),
        torch.jit.trace(nn.Conv2d(3, 4, 3), X),
    ],
    ids=["autograd function", "nested", "sparse", "mkldnn", "lazy", "traced"],
)
def test_odd_tensors_and_modules(model: nn.Module) -> None:
    assert run_of(model, X).failure is None


def test_lazy_layers_without_values_are_no_mismatch() -> None:
    run = run_of(nn.Sequential(nn.LazyConv2d(4, 3)), X.to("meta"), has_values=False)
    assert run.failure is not None
    assert run.failure.kind == "data"


def test_calls_of_modules_are_no_longer_watched_afterwards() -> None:
    original = nn.Module.__call__
    run_of(Does(lambda self, x: 1 / 0), X)
    assert nn.Module.__call__ is original


def test_other_threads_are_left_alone() -> None:
    other = nn.Linear(8, 8)
    results: list[torch.Tensor] = []

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=lambda: results.append(other(torch.ones(1, 8))))
        thread.start()
        thread.join()
        return x

    run = run_of(Does(forward), X)
    assert run.failure is None
    assert [call.path for call in run.modules] == [""]


SHAPES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(400, 10), (4, 256)),
    "convolution": (lambda: nn.Conv2d(3, 4, 3), (1, 4, 8, 8)),
    "kernel": (lambda: nn.Conv2d(3, 4, 9), (1, 3, 4, 4)),
    "batch norm": (lambda: nn.BatchNorm2d(3), (1, 4, 8, 8)),
    "rank of batch norm": (lambda: nn.BatchNorm2d(3), (1, 3)),
    "layer norm": (lambda: nn.LayerNorm(8), (2, 7)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 6, 3)),
    "LSTM": (lambda: nn.LSTM(8, 4), (3, 2, 7)),
    "pooling": (lambda: nn.MaxPool2d(9), (1, 3, 4, 4)),
    "padding": (lambda: nn.ReflectionPad2d(5), (1, 2, 4, 4)),
    "addition": (lambda: Does(lambda self, x: x + torch.ones(3)), (2, 4)),
    "matmul": (lambda: Does(lambda self, x: x @ torch.ones(3, 3)), (2, 4)),
    "cat": (lambda: Does(lambda self, x: torch.cat([x, torch.ones(3, 3)], 1)), (2, 4)),
    "stack": (lambda: Does(lambda self, x: torch.stack([x, torch.ones(3)])), (2, 4)),
    "view": (lambda: Does(lambda self, x: x.view(3, -1)), (2, 4)),
    "expand": (lambda: Does(lambda self, x: x.expand(3, 4)), (2, 4)),
    "permute": (lambda: Does(lambda self, x: x.permute(0, 2, 1)), (2, 4)),
    "split": (lambda: Does(lambda self, x: x.split([1, 2], 1)), (2, 4)),
    "index": (lambda: Does(lambda self, x: x[:, 5]), (2, 4)),
    "einsum": (lambda: Does(lambda self, x: torch.einsum("bc,cd->bd", x, torch.ones(3, 3))), (2, 4)),
    "unpacking": (lambda: Does(_unpacked), (2, 4)),
}


def _unpacked(self: Any, x: torch.Tensor) -> Any:
    batch, channels, size = x.shape
    return x.view(batch, channels * size)


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize("name", list(SHAPES))
def test_shapes_that_do_not_fit(name: str, has_values: bool) -> None:
    make, shape = SHAPES[name]
    failure = run_of(make(), torch.zeros(shape), has_values=has_values).failure
    assert failure is not None
    assert failure.kind == "shape", failure


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda self, x: x.missing, "AttributeError"),
        (lambda self, x: functional.embedding(x, x[0, 0]), "RuntimeError"),
        (lambda self, x: {}["key"], "KeyError"),
        (lambda self, x: sys.exit(3), "SystemExit"),
        (lambda self, x: self.forward(x), "RecursionError"),
        (lambda self, x: torch.quantile(x, 1.5), "RuntimeError"),
        (lambda self, x: functional.dropout(x, 2.0), "ValueError"),
        (lambda self, x, y: x, "TypeError"),
    ],
)
def test_other_errors(function: Any, error: str) -> None:
    failure = run_of(Does(function), X).failure
    assert failure is not None
    assert (failure.kind, failure.error) == ("error", error)


def test_a_mismatch_is_placed_in_the_layer_and_at_the_users_statement() -> None:
    model = nn.Sequential(Block(), nn.Flatten(), nn.Linear(400, 2))
    failure = run_of(model, X).failure
    assert failure is not None
    assert failure.module == "2"
    assert failure.operator == "aten::addmm"
    assert failure.function == "torch.nn.functional.linear"
    assert failure.identity == id(model[2])
    assert "mat1 and mat2" in failure.message
    assert [fact.shape for fact in failure.arguments if isinstance(fact, TensorFact)][1:2] == [(2, 24)]


def test_an_error_that_the_model_catches_is_no_failure() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        try:
            x = x @ torch.ones(3, 3)
        except RuntimeError:
            x = x * 2
        return x.view(5)

    failure = run_of(Does(forward), X).failure
    assert failure is not None
    assert failure.function == "torch.Tensor.view"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    (tmp_path / "own_layers.py").write_text(
        dedent(
            """
            from torch import nn

            class Inner(nn.Module):
                def forward(self, x):
                    y = x.permute(0, 2, 1)
                    return y.reshape(
                        3,
                        -1,
                    )

            class Outer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = Inner()

                def forward(self, x):
                    return self.inner(x)
            """
        ),
        "utf-8",
    )
    spec = importlib.util.spec_from_file_location("own_layers", tmp_path / "own_layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module, tmp_path


def test_places_and_frames_are_the_projects_own(project: tuple[Any, Path]) -> None:
    module, root = project
    run = run_of(module.Outer(), torch.zeros(2, 3, 4), root=root)
    rows = [operator.place.span.row for operator in run.operators if operator.place]
    assert rows[0] == 6
    assert run.calls[-1].place is not None
    assert (run.calls[-1].place.span.row, run.calls[-1].place.span.end_row) == (7, 10)
    failure = run_of(module.Outer(), torch.zeros(2, 5, 4), root=root).failure
    assert failure is not None
    assert failure.module == "inner"
    assert [frame[1:] for frame in failure.frames] == [(18, "forward"), (7, "forward")]
    assert failure.place is not None
    assert failure.place.span.row == 7


def test_flexible_dimensions_stay_symbols() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 6, 5, 2)
            self.head = nn.Linear(6, 10)

        def forward(self, x: torch.Tensor) -> Any:
            if x.shape[2] % 32:
                raise ValueError("the height must be divisible by 32")
            x = self.conv(x)
            return self.head(x.mean((2, 3))), x.flatten(2), x.view(x.shape[0], -1)

    bounds = {0: {0: (1, 8), 2: (32, 64)}}
    subject = Subject(Net(), Inputs((torch.zeros(1, 3, 32, 32),), {}, bounds), Path(), Destination())
    run = capture(subject, symbolic=True)
    assert run.failure is None
    head, flat, wide = run.output
    assert [str(size) for size in head.shape] == ["N", "10"]
    assert [str(size) for size in flat.shape] == ["N", "6", "14*((H-5)//2)+14"]
    assert head.shape == (1, 10)
    assert flat.shape == (1, 6, 196)
    assert str(wide.shape[0]) == "N"


def test_what_cannot_stay_flexible_takes_the_lower_bound() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view(1, 24)

    subject = Subject(Does(forward), Inputs((torch.zeros(1, 24),), {}, {0: {0: (1, 8)}}), Path(), Destination())
    run = capture(subject, symbolic=True)
    assert run.failure is None
    assert [str(size) for size in run.output.shape] == ["1", "24"]


def test_two_inputs_with_one_flexible_size() -> None:
    bounds = {"ids": {1: (4, 64)}, "mask": {1: (4, 64)}}
    inputs = Inputs((), {"ids": torch.zeros(1, 4), "mask": torch.zeros(1, 4)}, bounds)
    run = capture(Subject(Does(lambda self, ids, mask: ids * mask), inputs, Path(), Destination()), symbolic=True)
    assert run.failure is None
    assert str(run.output.shape[1]) in ("L", "L2")


class Branching(nn.Module):
    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = amount

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + self.amount, lambda x: x - 1, (x,))


def _plus(amount: float) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
    return lambda net, x: functional.relu(x) + amount


@pytest.mark.parametrize(
    ("model", "other", "same"),
    [
        (Does(_plus(1)), Does(_plus(1)), True),
        (Does(_plus(1)), Does(_plus(2)), False),
        (Does(_plus(1)), Does(lambda net, x: functional.relu(x)), False),
        (Does(lambda net, x: x.flatten(1)), Does(lambda net, x: x.flatten(2)), False),
        # What programs within it do, is not looked at.
        (Branching(1.0), Branching(2.0), False),
    ],
    ids=["alike", "number", "shorter", "argument", "branch"],
)
def test_two_captures_are_the_same_program(model: nn.Module, other: nn.Module, same: bool) -> None:
    inputs = Inputs.of((X,))
    programs = [torch_export.exported(each.eval(), inputs) for each in (model, other)]
    assert torch_export.is_same(*programs) == same


def test_programs_with_other_weights_differ() -> None:
    model, inputs = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), Inputs.of((X,))
    program = torch_export.exported(model, inputs)
    copied = copy.deepcopy(model)
    assert torch_export.is_same(program, torch_export.exported(copied, inputs))
    copied[1].running_mean[2] += 1
    assert not torch_export.is_same(program, torch_export.exported(copied, inputs))
