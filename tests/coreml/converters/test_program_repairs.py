"""What an export does about programs that coremltools refuses on account of no operator: assertions, and a pass that falls over them."""

from __future__ import annotations

import coremltools as ct
import pytest
import torch
from torch import nn

import modellint
from modellint.destinations.coreml.private.installed_capabilities import facts

pytestmark = pytest.mark.filterwarnings("ignore")


class HalfUsed(nn.Module):
    """One part of a split of what was stacked is not used: `fuse_stack_split` looks for what reads it."""

    def forward(self, x, y):
        first, _ = torch.split(torch.stack([x, y], 1), 1, 1)
        return first.squeeze(1) * 2


class Asserting(nn.Module):
    """An assertion about values, which `torch.export` keeps."""

    def forward(self, x, mask):
        torch._check(torch.ops.aten._is_all_true(mask >= 0).item())
        return x * 2 + mask.sum()


@pytest.mark.parametrize(
    ("model", "inputs", "frontend"),
    [
        (HalfUsed(), (torch.randn(2, 3), torch.randn(2, 3)), "trace"),
        (HalfUsed(), (torch.randn(2, 3), torch.randn(2, 3)), "export"),
        (Asserting(), (torch.randn(2, 3), torch.ones(2, 3)), "export"),
    ],
    ids=["pass-trace", "pass-export", "assertion"],
)
def test_it_is_exported_and_agrees(model: nn.Module, inputs: tuple[torch.Tensor, ...], frontend: str) -> None:
    exported = modellint.export(model.eval(), inputs, frontend=frontend)
    assert exported.verification.verdict == "agrees"


class Split(nn.Module):
    """Parts whose sizes are an input's values."""

    def forward(self, x, sizes):
        first, second = torch.split(x, sizes.tolist(), 1)
        return first.sum(1) + 2 * second.sum(1)


def test_parts_whose_sizes_are_values_are_exported() -> None:
    inputs = torch.randn(3, 6), torch.tensor([2, 4])
    exported = modellint.export(Split(), inputs, frontend="export")
    assert exported.verification.verdict == "agrees"
    assert len([case for case in exported.verification.cases if case.error is not None]) > 1


class Experts(nn.Module):
    """A mixture of experts: a loop over those that some row is sent to, and one class more, which none is sent to."""

    def __init__(self, count: int = 4):
        super().__init__()
        self.gate = nn.Linear(8, count, bias=False)
        self.weights = nn.Parameter(torch.randn(count, 8, 8))

    def forward(self, x):
        scores, chosen = self.gate(x).softmax(-1).topk(2)
        mask = nn.functional.one_hot(chosen, len(self.weights) + 1).permute(2, 1, 0)
        result = torch.zeros_like(x)
        for expert in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            expert = expert[0]
            place, row = torch.where(mask[expert])
            result.index_add_(0, row, x[row] @ self.weights[expert] * scores[row, place, None])
        return result


class PassingBy(Experts):
    """The same, which passes by an expert that no row is sent to."""

    def forward(self, x):
        scores, chosen = self.gate(x).softmax(-1).topk(2)
        mask = nn.functional.one_hot(chosen, len(self.weights)).permute(2, 1, 0)
        result = torch.zeros_like(x)
        for expert in torch.greater(mask.sum((-1, -2)), 0).nonzero(as_tuple=False):
            place, row = torch.where(mask[int(expert)])
            if row.numel() == 0:
                continue
            result.index_add_(0, row, x[row] @ self.weights[int(expert)] * scores[row, place, None])
        return result


@pytest.mark.parametrize("kind", [Experts, PassingBy])
@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_a_loop_over_the_experts_that_are_asked_goes_over_all(frontend: str, kind: type[Experts]) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    with torch.no_grad():
        # On the example one expert is not asked.
        model.gate.weight[3] = -model.gate.weight[:3].sum(0) * 9
    inputs = (torch.randn(3, 8),)
    asked = model.gate(inputs[0]).softmax(-1).topk(2)[1].unique()
    exported = modellint.export(model, inputs, frontend=frontend)
    assert len(asked) < 4
    assert exported.verification.verdict == "agrees"


class Chosen(nn.Module):
    """A loop over the places of a buffer, which does something for each that it goes over."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.tensor([1, 0, 1, 0]))

    def forward(self, x):
        return torch.stack([x[:, place[0]] for place in self.kept.nonzero()], 1) * 2


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_a_loop_that_does_something_for_each_place_stays(frontend: str) -> None:
    exported = modellint.export(Chosen().eval(), (torch.randn(3, 4),), frontend=frontend)
    assert exported.verification.verdict == "agrees"
    assert exported.verification.outputs[0].shape == (3, 2)


class Merging(nn.Module):
    """A kernel that every run in evaluation mode merges anew of two others."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.merged = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        if self.training:
            return self.first(x) + self.second(x)
        self.merged.weight.data = self.first.weight.data + self.second.weight.data
        return self.merged(x)


def test_parameters_are_what_every_run_makes_of_them() -> None:
    model = Merging().eval()
    before = model.merged.weight.detach().clone()
    assert modellint.export(model, (torch.randn(2, 4),)).verification.verdict == "agrees"
    assert torch.equal(model.merged.weight, before)


class Counting(nn.Module):
    """A parameter that every run makes another."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        self.factor.data = self.factor.data + x.abs().amax()
        return x * self.factor


def test_a_parameter_that_depends_on_the_input_is_not_taken_for_one() -> None:
    with pytest.raises(modellint.ExportError, match=r"differs|does not convert"):
        modellint.export(Counting().eval(), (torch.randn(2, 3),))


READS = {
    "not used": lambda a, b: a.squeeze(1) * 2,
    "added": lambda a, b: (a + b) * 2,
    "a sum that keeps the axis": lambda a, b: a.sum(1, keepdim=True) + b.sum(1, keepdim=True),
    "one more axis": lambda a, b: a.unsqueeze(1) + b.unsqueeze(1),
    "read twice": lambda a, b: a.squeeze(1) + b.squeeze(1) * a.relu().squeeze(1),
}


def taken_apart(read) -> nn.Module:
    """A model that stacks its inputs, splits them off again, and reads the parts."""

    class Net(nn.Module):
        def forward(self, x, y):
            return read(*torch.split(torch.stack([x, y], 1), 1, 1))

    return Net().eval()


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_check_tells_what_the_pass_falls_over(read) -> None:
    inputs = torch.randn(2, 3), torch.randn(2, 3)
    model = taken_apart(read)
    found = modellint.check_model(model, example_inputs=inputs, frontend="trace").diagnostics
    told = ["fuse_stack_split" in one.message for one in found if one.code == "OPS002"]
    assert told == ([] if converts(model, inputs) else [True])


def converts(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> bool:
    types = [ct.TensorType(shape=one.shape) for one in inputs]
    try:
        ct.convert(torch.jit.trace(model, inputs), inputs=types, skip_model_load=True)
    except (AttributeError, IndexError, ValueError):
        return False
    return True


def test_what_the_pass_takes_is_no_finding() -> None:
    inputs = torch.randn(2, 3), torch.randn(2, 3)
    for read in (lambda a, b: a.squeeze(1) * b.squeeze(1), lambda a, b: a.sum(1) + b.sum(1)):
        report = modellint.check_model(taken_apart(read), example_inputs=inputs, frontend="trace")
        assert not [one for one in report.diagnostics if one.code == "OPS002"]


def test_a_norm_that_the_pass_would_drop_is_exported() -> None:
    inputs = torch.randn(2, 3), torch.randn(2, 3)
    norms = taken_apart(lambda a, b: torch.linalg.vector_norm(a, dim=1) + torch.linalg.vector_norm(b, dim=1))
    verdict = modellint.verify(norms, inputs, frontend="trace").verdict
    assert verdict == ("differs" if facts().fuses_any_reader else "agrees")
    assert modellint.export(norms, inputs, frontend="trace").verification.verdict == "agrees"


class Scaled(nn.Module):
    """A scale and a shift by channel, again and again: a pass writes each as a normalization whose epsilon makes it smaller."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.5, 0.5]).reshape(2, 1, 1))
        self.register_buffer("shift", torch.tensor([1.0, 2.0]).reshape(2, 1, 1))

    def forward(self, x):
        for _ in range(4):
            x = x * self.scale + self.shift
        return x


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_a_scale_by_channel_is_what_it_was(frontend: str) -> None:
    inputs = (torch.randn(1, 2, 3, 3),)
    plain = modellint.verify(Scaled(), inputs, frontend=frontend)
    assert plain.outputs[0].error > 1e-5
    exported = modellint.export(Scaled(), inputs, frontend=frontend)
    assert exported.verification.outputs[0].error < 1e-6


def test_the_pass_is_itself_again_after_an_export() -> None:
    from coremltools.converters.mil.mil.passes.defs import optimize_elementwise_binary

    before = optimize_elementwise_binary.mb
    modellint.export(Scaled(), (torch.randn(1, 2, 3, 3),), frontend="trace")
    assert optimize_elementwise_binary.mb is before
