"""What live rules say of models in training mode, with hooks, wrappers, odd outputs, odd numbers, devices and views."""

from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

from modellint.destinations.coreml import installed_versions as installed
from modellint.live.check import check_subject, live_rules
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.rule_index import load_rules
from modellint.settings import Destination

RULES = {rule.code: rule for rule in live_rules(load_rules())}
HERE = Path(__file__).resolve()
LINES = HERE.read_text("utf-8").splitlines()


def found(code: str, model: nn.Module, inputs: Any = None, *, has_values: bool = True) -> list[Diagnostic]:
    """The findings of one rule."""
    example = None if inputs is None else Inputs.of(inputs)
    subject = Subject(model, example, HERE.parent, Destination(), has_values=has_values)
    return check_subject(subject, {code: RULES[code]})


def one(code: str, model: nn.Module, inputs: Any = None) -> Diagnostic:
    (finding,) = found(code, model, inputs)
    assert finding.code == code
    assert finding.evidence == "live"
    return finding


def line(finding: Diagnostic) -> str:
    """The text of the line at which a finding stands, in this file."""
    assert finding.span is not None
    assert finding.path == str(HERE)
    return LINES[finding.span.row - 1].strip()


class Computed(nn.Module):
    """Returns what a function makes of the input and a linear layer."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def computed(function: Callable[[Any, torch.Tensor], Any]) -> nn.Module:
    return Computed(function).eval()


X = torch.randn(2, 4)


# MOD001: the mode.


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(x))


class Noisy(nn.Module):
    def _noise(self, x: torch.Tensor) -> torch.Tensor:
        return torch.randn_like(x) if self.training else torch.zeros_like(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self._noise(x)


class Stack(nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.noisy = Noisy()


class Hiding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.drops = [nn.Dropout(), nn.Dropout(), nn.ReLU()]
        self.plain = [nn.Linear(4, 4)]


def test_training_mode_is_one_finding_for_the_model() -> None:
    finding = one("MOD001", Stack())
    assert finding.severity is Severity.ERROR
    assert "7 modules" in finding.message
    assert "3 BatchNorm1d, 3 Dropout, Noisy" in finding.message
    assert line(finding) == "class Stack(nn.Module):"
    assert set(finding.modules) >= {"blocks.0.norm", "noisy"}


def test_evaluation_mode_is_clean() -> None:
    assert found("MOD001", Stack().eval()) == []


def test_part_in_training_mode() -> None:
    model = Stack().eval()
    model.blocks[1].train()
    assert one("MOD001", model).modules == ("blocks.1.norm", "blocks.1.dropout")


def test_part_in_training_mode_that_does_not_matter() -> None:
    model = Stack().eval()
    model.head = nn.Linear(4, 4)
    assert found("MOD001", model) == []


def test_training_mode_of_a_model_that_does_not_depend_on_it_is_a_warning() -> None:
    assert one("MOD001", nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0))).severity is Severity.WARNING


def test_modules_that_eval_does_not_reach() -> None:
    finding = one("MOD001", Hiding().eval())
    assert finding.severity is Severity.ERROR
    assert "2 Dropout" in finding.message
    assert (finding.class_name, finding.attribute) == ("Hiding", "drops")
    assert line(finding).startswith("self.drops = [")


# MOD003: batch normalization.


class Normed(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm


def test_batchnorm_without_stats_is_found_at_its_attribute() -> None:
    model = nn.Sequential(*(Normed(nn.BatchNorm2d(4, track_running_stats=False)) for _ in range(12)))
    finding = one("MOD003", model.eval())
    assert finding.severity is Severity.WARNING
    assert line(finding) == "self.norm = norm"
    assert finding.modules == tuple(f"{index}.norm" for index in range(12))


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(4), nn.InstanceNorm2d(4), nn.GroupNorm(2, 4), nn.LazyBatchNorm2d()])
def test_other_norms_are_clean(norm: nn.Module) -> None:
    assert found("MOD003", Normed(norm).eval()) == []


# MOD004: computed weights.


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("put_on", "words"),
    [
        (weight_norm, "weight norm"),
        (spectral_norm, "spectral norm"),
        (parametrizations.weight_norm, "`WeightNorm`"),
        (parametrizations.spectral_norm, "`SpectralNorm`"),
        (lambda module: parametrize.register_parametrization(module, "weight", Doubled()), "`Doubled`"),
        (lambda module: prune.l1_unstructured(module, "weight", 0.5), "a pruning mask"),
    ],
)
def test_computed_weight(put_on: Callable[[nn.Module], nn.Module], words: str) -> None:
    model = computed(lambda self, x: self.linear(x))
    put_on(model.linear)  # type: ignore[arg-type]
    finding = one("MOD004", model)
    assert words in finding.message
    assert finding.modules == ("linear",)
    assert line(finding) == "self.linear = nn.Linear(4, 4)"
    assert found("MOD005", model) == []


def test_removed_parametrization_is_clean() -> None:
    model = computed(lambda self, x: self.linear(x))
    parametrizations.weight_norm(model.linear)
    parametrize.remove_parametrizations(model.linear, "weight")
    assert found("MOD004", model) == []


# MOD005 and MOD006: hooks.


def watch(module: nn.Module, *_: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("method", "words", "severity"),
    [
        ("register_forward_hook", "a forward hook (`watch`)", Severity.INFO),
        ("register_forward_pre_hook", "a forward pre-hook (`watch`)", Severity.INFO),
        ("register_full_backward_hook", "a backward hook (`watch`)", Severity.WARNING),
        ("register_full_backward_pre_hook", "a backward pre-hook (`watch`)", Severity.INFO),
    ],
)
@pytest.mark.parametrize("hook", [watch, functools.partial(watch)])
def test_hook(method: str, words: str, severity: Severity, hook: Any) -> None:
    model = computed(lambda self, x: self.linear(x))
    handle = getattr(model.linear, method)(hook)
    finding = one("MOD005", model)
    assert words in finding.message
    assert finding.severity is severity
    assert finding.modules == ("linear",)
    handle.remove()
    assert found("MOD005", model) == []


def test_hooks_of_torch_and_of_state_dict_are_no_hooks_of_the_user() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 4))
    model[1]._register_load_state_dict_pre_hook(watch)
    model[1]._register_state_dict_hook(watch)
    assert found("MOD005", model) == []


class Legacy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.register_backward_hook(watch)  # type: ignore[arg-type]


def test_legacy_hook_stands_where_it_was_registered() -> None:
    model = nn.Sequential(Legacy(), Legacy())
    finding = one("MOD006", model)
    assert line(finding).startswith("self.linear.register_backward_hook(watch)")
    assert finding.modules == ("0.linear", "1.linear")
    assert found("MOD005", model) == []


def test_legacy_hook_from_elsewhere_stands_at_the_attribute() -> None:
    model = computed(lambda self, x: self.linear(x))
    model.linear.register_backward_hook(watch)  # type: ignore[operator, union-attr]
    assert line(one("MOD006", model)) == "self.linear = nn.Linear(4, 4)"


def test_full_backward_hook_is_not_legacy() -> None:
    model = computed(lambda self, x: self.linear(x))
    model.linear.register_full_backward_hook(watch)  # type: ignore[operator, union-attr]
    assert found("MOD006", model) == []


# FLW006: wrappers.


@pytest.mark.parametrize(("wrap", "words"), [(nn.DataParallel, "`DataParallel`"), (torch.compile, "`torch.compile`")])
def test_wrapped_model(wrap: Callable[[nn.Module], nn.Module], words: str) -> None:
    finding = one("FLW006", wrap(Block().eval()))
    assert finding.severity is Severity.ERROR
    assert words in finding.message
    part = Normed(wrap(nn.BatchNorm1d(4)))
    assert line(one("FLW006", part)) == "self.norm = norm"


def test_model_compiled_in_place() -> None:
    model = Block()
    model.compile()
    assert "torch.compile" in one("FLW006", model).message
    assert found("FLW006", Block()) == []


# NUM003 and NUM007: numbers.


class Held(nn.Module):
    def __init__(self, tensor: torch.Tensor, *, parameter: bool = False, used: bool = True) -> None:
        super().__init__()
        self.used = used
        if parameter:
            self.held = nn.Parameter(tensor)
        else:
            self.register_buffer("held", tensor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.held.sum().to(x.dtype) if self.used else x * 2


@pytest.mark.parametrize("parameter", [False, True])
@pytest.mark.parametrize("value", [1e5, -1e9, torch.finfo(torch.float32).min])
def test_value_beyond_float16(value: float, parameter: bool) -> None:
    finding = one("NUM003", Held(torch.tensor([0.0, value, torch.inf, torch.nan]), parameter=parameter))
    assert finding.severity is Severity.WARNING
    assert f"{value:.4g}" in finding.message
    assert "held" in line(finding) or line(finding) == "class Held(nn.Module):"


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([65504.0, -65504.0]),
        torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0]),
        torch.tensor([2**40]),
        torch.tensor([True]),
        torch.empty(0),
        torch.empty(3, device="meta"),
    ],
)
def test_value_within_float16(tensor: torch.Tensor) -> None:
    assert found("NUM003", Held(tensor)) == []


def test_state_that_no_operator_reads_may_hold_anything() -> None:
    assert found("NUM003", Held(torch.tensor([1e9]), used=False), X) == []
    assert len(found("NUM003", Held(torch.tensor([1e9])), X)) == 1
    assert found("NUM007", Held(torch.ones(2, dtype=torch.float64), used=False), X) == []


def test_values_are_not_asked_for_where_there_are_none() -> None:
    assert found("NUM003", Held(torch.tensor([1e9])), has_values=False) == []


@pytest.mark.parametrize(
    ("dtype", "severity"),
    [
        (torch.bfloat16, Severity.ERROR),
        (torch.complex64, Severity.ERROR),
        (torch.float64, Severity.WARNING),
    ],
)
def test_type_that_core_ml_does_not_have(dtype: torch.dtype, severity: Severity) -> None:
    finding = one("NUM007", Held(torch.ones(2, dtype=dtype)))
    assert finding.severity is severity
    assert str(dtype).removeprefix("torch.") in finding.message


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_type_that_core_ml_has(dtype: torch.dtype) -> None:
    assert found("NUM007", Held(torch.ones(2, dtype=dtype))) == []


def test_model_of_one_unsupported_type_is_one_finding() -> None:
    finding = one("NUM007", Stack().bfloat16())
    assert "12 parameters and buffers" in finding.message
    assert line(finding) == "class Stack(nn.Module):"


# DEV001: devices.


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: self.linear(x) + torch.ones(4, device="cuda"),
        lambda self, x: self.linear(x.cuda()),
        lambda self, x: self.linear(x.to("cuda:0")),
        lambda self, x: self.linear(x).to(device=torch.device("cuda")),
    ],
)
def test_device_of_its_own(function: Callable[[Any, torch.Tensor], Any]) -> None:
    finding = one("DEV001", computed(function), X)
    assert line(finding).startswith("lambda self, x: ")


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: self.linear(x) + torch.ones(4, device=x.device),
        lambda self, x: self.linear(x.to(self.linear.weight.device)),
        lambda self, x: self.linear(x.cpu()),
        lambda self, x: self.linear(x) + torch.ones(4),
    ],
)
def test_device_of_the_inputs(function: Callable[[Any, torch.Tensor], Any]) -> None:
    assert found("DEV001", computed(function), X) == []


# SIG001, SIG002, SIG003, SIG005: what a model gives.


@dataclass
class Scores:
    scores: torch.Tensor


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: {"scores": self.linear(x)},
        lambda self, x: OrderedDict(scores=self.linear(x)),
        lambda self, x: (self.linear(x), {"more": x * 2}),
    ],
)
def test_dict_output(function: Callable[[Any, torch.Tensor], Any]) -> None:
    finding = one("SIG001", computed(function), X)
    assert finding.severity is Severity.WARNING
    assert line(finding) == "return self.function(self, x)"
    assert "what converts from `torch.export` has no keys" in finding.message
    assert found("SIG002", computed(function), X) == []


def test_dict_with_what_is_no_tensor() -> None:
    finding = one("SIG001", computed(lambda self, x: {"scores": self.linear(x), "loss": None}), X)
    assert ", and None in it: neither route converts it" in finding.message


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda self, x: None, "returns None"),
        (lambda self, x: (self.linear(x), None), "None beside tensors"),
        (lambda self, x: {"scores": self.linear(x), "loss": None}, "None beside tensors"),
        (lambda self, x: (self.linear(x), 3), "a `int` beside tensors"),
        (lambda self, x: (self.linear(x), ["name"]), "a `str` beside tensors"),
        (lambda self, x: (self.linear(x), x.shape), "a `int` beside tensors"),
        (lambda self, x: Scores(self.linear(x)), "a `Scores`"),
        (lambda self, x: (), "no tensor"),
    ],
)
def test_output_that_is_no_tensor(function: Callable[[Any, torch.Tensor], Any], words: str) -> None:
    finding = one("SIG002", computed(function), X)
    assert finding.severity is Severity.ERROR
    assert words in finding.message


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: self.linear(x),
        lambda self, x: (self.linear(x), [x * 2, (x * 3,)]),
        lambda self, x: Pair(self.linear(x), x * 2),
    ],
)
def test_tensors_in_tuples_and_lists_are_clean(function: Callable[[Any, torch.Tensor], Any]) -> None:
    for code in ("SIG001", "SIG002", "SIG003"):
        assert found(code, computed(function), X) == []


def twice(self: Any, x: torch.Tensor) -> Any:
    y = self.linear(x)
    return x * 2, y, y


def once_more(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> Callable[[Any, torch.Tensor], Any]:
    def function(self: Any, x: torch.Tensor) -> Any:
        y = self.linear(x)
        return y, change(self, y)

    return function


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (twice, "the outputs 1, 2 are the same tensor"),
        (once_more(lambda self, y: self.dropout(y)), "the outputs 0, 1 are"),
        (once_more(lambda self, y: y.contiguous().float()), "the outputs 0, 1 are"),
        (lambda self, x: (self.linear(x), x), "input 0 as it came"),
        (lambda self, x: self.dropout(x), "input 0 as it came"),
    ],
)
def test_output_that_was_there_before(function: Callable[[Any, torch.Tensor], Any], words: str) -> None:
    finding = one("SIG003", computed(function), X)
    assert finding.severity is Severity.ERROR
    assert words in finding.message


@pytest.mark.parametrize("change", [lambda self, y: y.view(y.shape), lambda self, y: y.relu(), lambda self, y: y[0]])
def test_views_and_values_of_an_output_are_others(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
    assert found("SIG003", computed(once_more(change)), X) == []


def test_input_by_name() -> None:
    class Named(nn.Module):
        def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> Any:
            return ids * scale, scale

    inputs: Mapping[str, torch.Tensor] = {"ids": X, "scale": torch.ones(())}
    finding = one("SIG003", Named(), inputs)
    assert "the input `scale` as it came" in finding.message
    assert line(finding) == "return ids * scale, scale"


class Misspelt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forwrad(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_module_without_forward_that_is_called() -> None:
    model = computed(lambda self, x: self.part(x))
    model.part = Misspelt()
    finding = one("SIG005", model, X)
    assert "did you mean `forwrad`" in finding.message
    assert finding.modules == ("part",)
    assert line(finding).startswith("model = computed(lambda self, x: self.part(x))")


def test_container_that_is_called() -> None:
    model = computed(lambda self, x: self.layers(x))
    model.layers = nn.ModuleList([nn.Linear(4, 4)])
    assert "`ModuleList` is called" in one("SIG005", model, X).message


def test_module_without_forward_that_only_holds_others() -> None:
    model = computed(lambda self, x: self.part.linear(x))
    model.part = Misspelt()
    assert found("SIG005", model, X) == []
    assert found("SIG005", model) == []


def test_model_without_forward() -> None:
    assert line(one("SIG005", Misspelt())) == "class Misspelt(nn.Module):"


# SHP002, SHP007, SHP009: layouts.


def heads(self: Any, x: torch.Tensor) -> torch.Tensor:
    batch, count, length, width = x.shape
    return x.transpose(1, 2).view(batch, length, count * width)


def test_refused_view_and_the_next() -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = x.permute(0, 2, 1).view(-1)
            return y, x.transpose(0, 1).view(-1, 3)

    first, second = found("SHP002", Twice(), torch.randn(2, 3, 4))
    assert line(first) == "y = x.permute(0, 2, 1).view(-1)"
    assert line(second) == "return y, x.transpose(0, 1).view(-1, 3)"
    assert first.severity is Severity.WARNING


def test_view_that_is_legal_for_this_size_only() -> None:
    assert one("SHP002", computed(heads), torch.randn(2, 1, 4, 5)).severity is Severity.INFO


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: x.transpose(1, 2).reshape(2, 4, -1),
        lambda self, x: x.transpose(1, 2).contiguous().view(2, 4, -1),
        lambda self, x: x.permute(0, 2, 3, 1).view(2, 4, 5, 1, -1),
        lambda self, x: x.transpose(0, 1).view(x.shape[1], 2, -1),
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_legal_view(function: Callable[[Any, torch.Tensor], Any], count: int) -> None:
    assert found("SHP002", computed(function), torch.randn(2, count, 4, 5)) == []


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.weight.view(1, -1, 1, 1)
        return functional.relu(x) * scale.exp()


def test_parameter_that_meets_another_rank() -> None:
    finding = one("SHP007", nn.Sequential(Scaled()), torch.randn(1, 4, 8))
    assert finding.severity is Severity.WARNING
    assert line(finding) == "scale = self.weight.view(1, -1, 1, 1)"
    assert finding.modules == ("0",)


@pytest.mark.parametrize("model", [Scaled(), nn.BatchNorm2d(4).eval(), nn.PReLU(4), nn.GroupNorm(2, 4)])
def test_parameter_that_meets_its_rank(model: nn.Module) -> None:
    assert found("SHP007", model, torch.randn(2, 4, 8, 8)) == []


@pytest.mark.parametrize(
    ("shape", "function", "words"),
    [
        ((1, 4), lambda self, x: x.squeeze(), "drops the batch"),
        ((1, 4), lambda self, x: torch.squeeze(self.linear(x)), "drops the batch"),
        ((2, 4, 1, 1), lambda self, x: x.mul(2).squeeze(), "drops 2 dimensions"),
    ],
)
def test_squeeze_that_drops_too_much(shape: tuple[int, ...], function: Callable[[Any, Any], Any], words: str) -> None:
    assert words in one("SHP009", computed(function), torch.randn(shape)).message


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ((1, 4), lambda self, x: x.squeeze(0)),
        ((2, 4, 1), lambda self, x: x.squeeze()),
        ((1, 4), lambda self, x: x + self.linear.weight[:1].squeeze()),
        ((1, 4), lambda self, x: x.squeeze(dim=1)),
    ],
)
def test_squeeze_that_drops_what_it_should(shape: tuple[int, ...], function: Callable[[Any, Any], Any]) -> None:
    assert found("SHP009", computed(function), torch.randn(shape)) == []


# ENV001 and ENV002: what is installed.


@pytest.mark.parametrize(
    ("numpy", "coremltools", "expected"),
    [
        ("2.4.0", "9.0", True),
        ("2.4.0rc1", "8.3", True),
        ("3.0", "9.0", True),
        ("2.3.5", "9.0", False),
        ("2.10.0", "9.1", False),
        (None, "9.0", False),
        ("2.4.0", None, False),
    ],
)
def test_numpy_too_new(
    numpy: str | None, coremltools: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "version", {"numpy": numpy, "coremltools": coremltools}.get)
    assert bool(found("ENV001", nn.Identity())) is expected


@pytest.mark.parametrize(
    ("torch_version", "expected"), [("2.7.0", False), ("2.7.1+cpu", True), ("2.13.0+cpu", True), ("2.5.1", False)]
)
def test_torch_untested(torch_version: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", {"torch": torch_version, "coremltools": "9.0"}.get)
    monkeypatch.setattr(installed, "tested_torch", lambda: "2.7.0")
    assert bool(found("ENV002", nn.Identity())) is expected


def test_coremltools_says_what_it_was_tested_with() -> None:
    tested = installed.tested_torch()
    assert tested is not None
    assert installed.release(tested) >= (2, 1)


class LastToken(nn.Module):
    """The row of the last token that is no padding."""

    def __init__(self, count: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.count = count

    def forward(self, ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        last = self.count(ids != 0) - 1
        return rows[torch.arange(len(ids)), last]


@pytest.mark.parametrize(("length", "count"), [(3001, "sum"), (3001, "sum of integers"), (2048, "sum")])
def test_count_of_truth_values_as_an_index(length: int, count: str) -> None:
    model = LastToken((lambda mask: mask.sum(-1)) if count == "sum" else (lambda mask: mask.int().sum(-1)))
    findings = found("NUM008", model, (torch.ones(2, length, dtype=torch.int64), torch.randn(2, length, 3)))
    assert [finding.severity for finding in findings] == [Severity.WARNING] * (length == 3001 and count == "sum")
