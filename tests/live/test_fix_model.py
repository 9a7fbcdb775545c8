"""``fix_model``: a copy that is ready to be converted, computes the same, and has nothing in common with the model."""

from __future__ import annotations

import pickle
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from fixable import Built, built, hidden_in, in_evaluation, modules_of
from hypothesis import HealthCheck, given, settings
from torch import nn

import modellint
from modellint.live.code.places import Project
from modellint.live.fix import BIT_EQUAL, FixedModel, fixed_copy
from modellint.live.fixes.proof import is_same, run
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

from digest import digest


def fix(model: nn.Module, *inputs: Any) -> FixedModel:
    """Without the check of what is left, and without coremltools."""
    given = Inputs(inputs) if inputs else None
    return fixed_copy(model, given, Destination(), Project(Path.cwd()), judge=lambda subject: ())


def codes(found: FixedModel) -> list[str]:
    return [one.code for one in found.applied]


X = torch.arange(12.0).view(3, 4) / 7


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(built())
def test_everything_hidden_is_registered_and_computes_the_same(made: Built) -> None:
    before = digest(made.model, X)
    kinds = modules_of(made.model)
    found = fix(made.model, X)
    assert digest(made.model, X) == before
    assert found.left == ()
    assert hidden_in(found.model) == []
    assert modules_of(found.model) == kinds
    assert not any(one.training for one in found.model.modules())
    in_evaluation(made.model)
    if all(one.exactness == BIT_EQUAL for one in found.applied):
        for x in (X, torch.zeros(3, 4), -3 * X):
            assert is_same(run(made.model, Inputs.of(x)), run(found.model, Inputs.of(x)))


class Stack(nn.Module):
    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


# What is registered


def test_keys_are_those_of_the_container() -> None:
    found = fix(Stack([nn.Linear(4, 4), nn.Linear(4, 4)]).eval(), X)
    assert list(found.model.state_dict()) == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    assert isinstance(found.model.layers, nn.ModuleList)


class Indexing(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x) + self.layers.index(self.layers[1]) + self.layers[1](x)


def test_what_its_users_need_decides() -> None:
    found = fix(Indexing([nn.Linear(4, 4), nn.ReLU()]).eval(), X)
    assert type(found.model.layers) is list
    assert [type(one) for one in found.model.modules()][-2:] == [nn.Linear, nn.ReLU]
    (undone,) = found.undone
    assert undone.code == "REG001"
    assert "index" in undone.note


class Reference(nn.Module):
    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.other = [other]
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_a_reference_on_purpose_stays_one_and_is_evaluated() -> None:
    found = fix(Reference(nn.BatchNorm1d(4)), X)
    assert list(found.model.state_dict()) == ["linear.weight", "linear.bias"]
    assert not found.model.other[0].training


class OfTheClass(nn.Module):
    layers: ClassVar = [nn.Linear(4, 4), nn.Dropout()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[1](self.layers[0](x))


def test_what_the_class_holds_is_copied_too() -> None:
    model = OfTheClass()
    found = fix(model, X)
    assert found.model.layers[0] is not model.layers[0]
    assert (model.layers[1].training, found.model.layers[1].training) == (True, False)
    assert len(list(found.model.parameters())) == 2
    assert len(list(model.parameters())) == 0


class Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.constant = torch.arange(4.0)
        self.mean = torch.zeros(4)
        self.unread = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x * self.constant - self.mean


def test_tensors_that_forward_reads_are_buffers() -> None:
    found = fix(Statistics(), X)
    assert {name for name, _ in found.model.named_buffers()} == {"constant", "mean"}
    assert list(found.model.state_dict()) == ["mean"]


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = [torch.arange(4.0), torch.ones(4), torch.zeros(4)]
        self.named = {"a": torch.arange(4.0), 3: torch.ones(4)}
        self.pair = (torch.ones(4), torch.ones(4))
        self.mixed = [torch.ones(4), 3]
        self.copied = [torch.ones(4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.pair
        x = x * self.rows[-2] + sum(self.rows[1:]) + self.named[3] + self.named.get("a") + first + second
        for value in self.named.values():
            x = x + value
        return x + self.mixed[0] * self.mixed[1] + self.copied.copy()[0]


def test_tensors_in_containers() -> None:
    model = Tables().eval()
    found = fix(model, X)
    assert torch.equal(found.model(X), model(X))
    assert len(list(found.model.buffers())) == 7
    assert list(found.model.state_dict()) == []
    assert {type(vars(found.model)[name]) for name in ("mixed", "copied")} == {list}
    assert [one.modules for one in found.undone] == [("copied[0]",)]
    assert found.model.to(torch.float64).rows[0].dtype is torch.float64
    assert "a" in found.model.named
    assert (list(found.model.named), len(found.model.named), len(found.model.rows)) == (["a", 3], 2, 3)


# What stands around it


class Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.DataParallel(nn.Linear(4, 4))
        self.parts = [nn.DataParallel(nn.Sequential(nn.DataParallel(nn.Linear(4, 4))))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts[0](self.trunk(x))


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_wrappers_are_taken_away_at_any_depth(wrap: Any) -> None:
    inner = Inside().eval()
    model = wrap(inner)
    found = fix(model, X)
    assert type(found.model) is Inside
    assert [type(one) for one in found.model.modules() if isinstance(one, nn.DataParallel)] == []
    assert torch.equal(found.model(X), inner(X))
    assert {one.title for one in found.applied if one.code == "FLW006"} >= {"took away `DataParallel`"}
    assert isinstance(inner.trunk, nn.DataParallel)


class AsksTheWrapper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.DataParallel(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.trunk(x) * self.trunk.module.in_features


def test_a_wrapper_that_is_asked_for_what_it_holds() -> None:
    model = AsksTheWrapper().eval()
    found = fix(model, X)
    assert not any(isinstance(one, nn.DataParallel) for one in found.model.modules())
    assert list(found.model.state_dict()) == list(model.state_dict())
    assert torch.equal(found.model(X), model(X))


def test_compiled_in_place() -> None:
    model = nn.Sequential(nn.Linear(4, 4)).eval()
    model[0].compile()
    found = fix(model, X)
    assert found.model[0]._compiled_call_impl is None
    assert model[0]._compiled_call_impl is not None
    assert codes(found) == ["FLW006"]


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "put_on",
    [
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.orthogonal,
        lambda layer: torch.nn.utils.prune.l1_unstructured(layer, "weight", 0.5),
    ],
)
def test_parametrizations_are_folded(put_on: Any) -> None:
    model = nn.Sequential(put_on(nn.Linear(4, 4)), nn.ReLU()).eval()
    expected, keys = model(X), list(model.state_dict())
    found = fix(model, X)
    assert codes(found) == ["MOD004"]
    assert sorted(found.model.state_dict()) == ["0.bias", "0.weight"]
    assert type(found.model[0]) is nn.Linear
    torch.testing.assert_close(found.model(X), expected)
    # PyTorch's own function takes the weight away from the class, which the two have in common.
    assert torch.equal(model(X), expected)
    assert list(model.state_dict()) == keys


def test_memory_in_order() -> None:
    model = nn.Module()
    model.forward = lambda x: x @ model.wide + model.turned.sum() + model.first.sum() + model.second.sum()  # type: ignore[method-assign]
    model.wide = nn.Parameter(torch.randn(4, 1).expand(4, 4))
    model.turned = nn.Parameter(torch.randn(2, 3).t(), requires_grad=False)
    table = torch.randn(6)
    model.register_buffer("first", table[:4])
    model.register_buffer("second", table[2:])
    found = fix(model, X)
    fixed = found.model
    assert sorted(codes(found)) == ["MOD001", "REG011", "REG011", "REG012"]
    assert fixed.wide.is_contiguous()
    assert fixed.turned.is_contiguous()
    assert not fixed.turned.requires_grad
    fixed.first.zero_()
    assert torch.equal(fixed.second, model.second)
    assert not model.wide.is_contiguous()


# Hooks


def captured_without(kind: str) -> Any:
    """A judge that captures no model with hooks of a kind."""
    from modellint.results.conversion_verdict import Blocker, Verdict

    def judge(subject: Any) -> tuple[Any, ...]:
        bad = any(getattr(module, kind) for module in subject.model.modules())
        return (Verdict("trace", not bad, (Blocker("capture", None, "refused", None),) if bad else ()),)

    return judge


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    model[0].register_full_backward_hook(lambda module, given, output: None)
    model[0].register_forward_hook(lambda module, given, output: None)
    model[1].register_forward_hook(lambda module, given, output: output * 2)
    return model


def test_hooks_stay() -> None:
    found = fix(hooked(), X)
    assert found.applied == ()
    assert len(found.model[0]._backward_hooks) == len(found.model[0]._forward_hooks) == 1
    assert torch.equal(found.model(X), hooked_result(found.model))


def hooked_result(model: nn.Module) -> torch.Tensor:
    return 2 * torch.relu(nn.functional.linear(X, model[0].weight, model[0].bias))


def test_hooks_go_where_the_model_is_not_captured_with_them() -> None:
    model = hooked()
    judge = captured_without("_backward_hooks")
    found = fixed_copy(model, Inputs((X,)), Destination(), Project(Path.cwd()), judge=judge)
    assert [one.code for one in found.applied] == ["MOD005"]
    fixed = found.model
    assert (len(fixed[0]._backward_hooks), len(fixed[0]._forward_hooks), len(fixed[1]._forward_hooks)) == (0, 1, 1)
    assert len(model[0]._backward_hooks) == 1


def test_hooks_that_compute_stay_whatever_they_prevent() -> None:
    judge = captured_without("_forward_hooks")
    found = fixed_copy(hooked(), Inputs((X,)), Destination(), Project(Path.cwd()), judge=judge)
    assert len(found.model[1]._forward_hooks) == 1
    assert [one.code for one in found.undone] == ["MOD005"]


# The copy


class Awkward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.again = self.linear
        self.other = nn.Linear(4, 4)
        self.other.weight = self.linear.weight
        self.lock, self.event = threading.RLock(), threading.Event()
        self.file = Path(__file__).open(encoding="utf-8")  # noqa: SIM115
        self.numbers = (number for number in range(3))
        self.random = torch.Generator().manual_seed(3)
        self.average = self.linear.weight.sum() * 2
        self.parent = weakref.ref(self)
        self.near = weakref.WeakSet([self.linear])
        self.call = lambda x: self.linear(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            return self.call(x) + self.parent().other(x) + torch.rand(4, generator=self.random)


def test_a_model_that_deepcopy_refuses() -> None:
    model = Awkward().eval()
    try:
        before = digest(model, X)
        found = fix(model, X)
        assert digest(model, X) == before
        fixed = found.model
        assert fixed.linear is fixed.again is not model.linear
        assert fixed.linear.weight is fixed.other.weight is not model.linear.weight
        assert fixed.parent() is fixed
        assert list(fixed.near) == [fixed.linear]
        assert fixed.lock is not model.lock
        assert fixed.random.get_state().equal(model.random.get_state())
        assert fixed.average.grad_fn is None
        assert list(fixed.state_dict()) == list(model.state_dict())
        with torch.no_grad():
            fixed.linear.weight.zero_()
        assert not torch.equal(fixed.call(X), model.call(X))
        assert [line for line in found.left if "TextIOWrapper" in line]
    finally:
        model.file.close()


class Proxy:
    """Asks its owner for what it does not have itself, and asks without end before it has one."""

    def __init__(self, owner: nn.Module) -> None:
        self.owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner.weight, name)


class WithProxy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.proxy = Proxy(self.layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.proxy.shape[0]


def test_a_model_that_holds_a_proxy() -> None:
    model, x = WithProxy().eval(), torch.rand(1, 2)
    fixed = fix(model, x).model
    assert torch.equal(fixed(x), model(x))
    assert fixed.proxy.owner is fixed.layer


def test_a_model_nested_very_deep() -> None:
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(400):
        outer = nn.Module()
        outer.inner = model
        model = outer
    found = fix(model)
    assert len(list(found.model.modules())) == 401


class Stubborn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout()

    def train(self, mode: bool = True) -> Stubborn:
        self.drop.training = True
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(x)


def test_evaluation_mode_whatever_train_does() -> None:
    found = fix(Stubborn(), X)
    assert torch.equal(found.model(X), X)
    assert codes(found) == ["MOD001"]


def test_a_model_that_does_not_run() -> None:
    found = fix(Stack([nn.Linear(5, 5)]), X)
    assert codes(found) == ["MOD001"]
    assert ["nothing can be proven" in one.note for one in found.undone] == [True]
    assert "does not run" in found.left[0]


def test_random_models_are_proven_from_one_seed() -> None:
    class Noisy(Stack):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + torch.randn(4)

    model = Noisy([nn.Linear(4, 4)])
    state = torch.get_rng_state()
    found = fix(model, X)
    assert codes(found) == ["MOD001", "REG001"]
    assert torch.equal(state, torch.get_rng_state())


# What Python programs get


def test_the_report() -> None:
    model = Indexing([nn.Linear(4, 4), nn.Dropout()])
    fixed, report = modellint.fix_model(model, example_inputs=(X,))
    assert {one.code for one in report.fixed} == {"MOD001", "REG001"}
    assert [one.code for one in report.undone] == ["REG001"]
    assert [finding.code for finding in report.diagnostics if finding.code.startswith(("REG", "MOD"))] == []
    text = repr(report)
    assert "fixed: REG001 registered the modules beside the list (layers[0], layers[1])" in text
    assert "not fixed: REG001 made a `ModuleList` of the list" in text
    html = report._repr_html_()
    assert "registered the modules beside the list" in html
    assert "not fixed" in html
    assert pickle.loads(pickle.dumps(report)) == report
    assert model.training
    assert not fixed.training


def test_nothing_to_do() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.PReLU(4)).eval()
    fixed, report = modellint.fix_model(model, example_inputs=X)
    assert report.fixed == report.undone == ()
    assert report.convertible
    assert fixed is not model
    assert list(fixed.state_dict()) == list(model.state_dict())


def test_without_inputs_what_is_to_be_proven_is_not_done() -> None:
    fixed, report = modellint.fix_model(Stack([nn.Dropout()]))
    assert not fixed.layers[0].training
    assert type(fixed.layers) is list
    assert [one.code for one in report.fixed] == ["MOD001"]
    assert [one.note for one in report.undone] == ["example_inputs are needed to prove it"]


def test_what_is_no_model() -> None:
    with pytest.raises(TypeError, match=r"fix_model\(Stack\(...\), ...\)"):
        modellint.fix_model(Stack)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="frontend"):
        modellint.fix_model(nn.ReLU(), frontend="jit")
