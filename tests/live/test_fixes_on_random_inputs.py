"""Every fix of a live model, and every safe one of its source, on hundreds of random inputs: the same values and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from fixable import FORMS, WIDTH, Part, in_evaluation
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import prune

import modellint
from modellint.live.code.places import Project
from modellint.live.fix import BIT_EQUAL, fixed_copy
from modellint.live.fixes.proof import same_bits
from modellint.live.inputs.model_inputs import Inputs
from modellint.nn import CustomPReLU
from modellint.results.diagnostic import Applicability
from modellint.rule import Page
from modellint.rule_index import load_rules
from modellint.settings import Destination
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

EXAMPLES, EACH = 25, 8
"""Batches that hypothesis draws for each fix, and inputs in one."""
SPECIAL = torch.tensor([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-38, 3e38, -1e-45])
SOME = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Drawn(NamedTuple):
    """What inputs are to be like."""

    seed: int
    rows: int
    special: bool
    turned: bool
    """Whether the elements lie in another order in memory."""


DRAWN = st.lists(
    st.builds(Drawn, st.integers(0, 2**31), st.integers(0, 5), st.booleans(), st.booleans()),
    min_size=EACH,
    max_size=EACH,
)


def tensor(drawn: Drawn, rest: tuple[int, ...]) -> Tensor:
    draw = torch.Generator().manual_seed(drawn.seed)
    shape = (drawn.rows, *rest)
    x = torch.randn(shape, generator=draw) * 3
    if drawn.special:
        which = torch.randint(0, len(SPECIAL), shape, generator=draw)
        x = torch.where(torch.rand(shape, generator=draw) < 0.1, SPECIAL[which], x)
    return x.mT.contiguous().mT if drawn.turned else x


class Seen(NamedTuple):
    """One run: what it gives, and the gradients of the input and of what is reached from the outputs, in that order."""

    outputs: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    error: str = ""


def seen(model: nn.Module, x: Tensor) -> Seen:
    """What one run leaves behind in a model, it leaves behind in the other too, and the next ones start from."""
    x = x.detach().requires_grad_()
    # `torch.manual_seed` also writes down the stack, for a GPU that there may be later.
    torch.default_generator.manual_seed(0)
    try:
        outputs = tuple(tensors_in(model(x)))
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
        return Seen((), (), type(error).__name__)
    total = sum(((one * _upstream(one)).sum() for one in outputs if one.requires_grad), torch.zeros(()))
    sources = [x, *(one for one in leaves(total) if one is not x)]
    gradients = torch.autograd.grad(total, sources, allow_unused=True) if total.requires_grad else ()
    return Seen(
        tuple(one.detach().clone() for one in outputs),
        tuple(torch.zeros(()) if one is None else one.to_dense() for one in gradients),
    )


def _upstream(output: Tensor) -> Tensor:
    return torch.linspace(-1, 2, output.numel()).reshape(output.shape)


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part)


def leaves(total: Tensor) -> Iterator[Tensor]:
    """What a tensor is computed of, in the order of the graph: equal ones for models that compute alike."""
    pending, known = [total.grad_fn], set()
    while pending:
        node: Any = pending.pop()
        if node is None or node in known:
            continue
        known.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        pending.extend(one for one, _ in node.next_functions)


def same_numbers(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def is_within(one: Tensor, other: Tensor, ulps: float, least: float = 0.0) -> bool:
    """Whether two are as close as a class says, in units in the last place of the largest finite number, or of a larger one."""
    if not ulps:
        return same_bits(one, other)
    finite = one.isfinite() & other.isfinite()
    if not same_numbers(one[~finite], other[~finite]):
        return False
    scale = max((float(each[finite].abs().max()) for each in (one, other) if finite.any()), default=0.0)
    scale = max(scale, least)
    return bool(((one - other).abs()[finite] <= ulps * torch.finfo(one.dtype).eps * scale).all())


def compare(before: Seen, after: Seen, folded: bool = False, ulps: float = 0.0, sums: float = 0.0) -> None:
    """``folded``: parameters have become others, and the input's gradient is what can be compared; ``sums``: how far gradients may be."""
    assert before.error == after.error
    assert len(before.outputs) == len(after.outputs)
    for one, other in zip(before.outputs, after.outputs, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert is_within(one, other, ulps)
    count = 1 if folded else len(before.gradients)
    assert len(after.gradients[:count]) == len(before.gradients[:count])
    # A sum may come out much smaller than what was added up.
    largest = max((float(one.abs().max()) for one in (*before.outputs, *before.gradients) if one.numel()), default=0.0)
    for one, other in zip(before.gradients[:count], after.gradients[:count], strict=True):
        assert is_within(one, other, sums, largest) if sums else same_numbers(one, other)


# Fixes of live models


class Pruned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        prune.random_unstructured(self.inner, "weight", 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.inner.register_forward_hook(lambda module, given, output: self.seen.append(output))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def form(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers: list[nn.Module] = [nn.Linear(WIDTH, WIDTH), nn.Dropout(), nn.BatchNorm1d(WIDTH)]
        return Part(name, layers, [nn.PReLU(WIDTH)])

    return make


def old(norm: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(norm(nn.Linear(WIDTH, WIDTH)), nn.Tanh())


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{name: form(name) for name in FORMS},
    "old weight norm": old(nn.utils.weight_norm),
    "old spectral norm": old(nn.utils.spectral_norm),
    "spectral norm": old(nn.utils.parametrizations.spectral_norm),
    "orthogonal": old(nn.utils.parametrizations.orthogonal),
    "pruned": Pruned,
    "hooked": Hooked,
    "DataParallel": lambda: nn.DataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout())),
    "compiled": lambda: torch.compile(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout())),  # type: ignore[dict-item]
    "training": lambda: nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Dropout(), nn.RReLU()),
}
# What is computed before the first run of a tensor that needs a gradient is copied without its graph.
OTHER_PARAMETERS = {
    "awkward",
    "weight norm",
    "old weight norm",
    "old spectral norm",
    "spectral norm",
    "orthogonal",
    "pruned",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_of_a_live_model(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    given_inputs = Inputs((torch.randn(3, WIDTH),))
    found = fixed_copy(model, given_inputs, Destination(), Project(tmp_path), judge=lambda subject: ())
    assert found.applied
    classes = [one.exactness for one in found.applied if one.exactness != BIT_EQUAL]
    ulps = max((float(one.removeprefix("≤ ").removesuffix(" ulps")) for one in classes), default=0.0)
    # Matrices that lie in another order in memory are multiplied in another order.
    moved = any(one.code in ("REG011", "REG012") for one in found.applied)
    in_evaluation(model)
    if name == "compiled":
        model = model._orig_mod

    @SOME
    @given(DRAWN)
    def on(drawn: list[Drawn]) -> None:
        for one in drawn:
            # What is added up in another order can become infinite at another place.
            x = tensor(one._replace(special=one.special and not moved), (WIDTH,))
            compare(seen(model, x), seen(found.model, x), name in OTHER_PARAMETERS, ulps, 16.0 * moved)

    on()


# PReLU: slopes of any kind on inputs of any rank stand in test_prelu.py; here, that nothing else changes around it


@pytest.mark.parametrize("rest", [(3,), (3, 4), (3, 2, 2), (3, 2, 1, 2)])
def test_prelu(rest: tuple[int, ...]) -> None:
    plain, ours = nn.PReLU(3), CustomPReLU(3)
    with torch.no_grad():
        plain.weight.copy_(torch.tensor([0.25, -0.5, 2.0]))
    ours.load_state_dict(plain.state_dict())

    @SOME
    @given(DRAWN)
    def on(drawn: list[Drawn]) -> None:
        for one in drawn:
            x = tensor(one, rest)
            before, after = seen(plain, x), seen(ours, x)
            # The slopes' gradient is a sum, which each adds up in an order of its own.
            compare(before, after, folded=True)

    on()


# Fixes of source

RULES = {code: rule for code, rule in load_rules().items() if rule.fixable}
ROOT = Path(__file__).resolve().parent.parent.parent
REST = ((8,), (4,), (8, 4), (4, 8), (3, 8, 8), (4, 8, 8), (16, 8), (8, 16))


def findings(text: str) -> Any:
    return modellint.check_source(text).diagnostics


def sources() -> Iterator[Any]:
    """What is wrong, and what is right."""
    for code, rule in RULES.items():
        page = Page.of(type(rule))
        bad = page.example("Bad")
        if all(one.fix is not None and one.fix.applicability is Applicability.SAFE for one in findings(bad)):
            yield pytest.param(bad, page.example("Good"), id=code)
    for path in sorted((ROOT / "examples").glob("*.py")):
        good = ROOT / "examples" / "fixed" / path.name
        yield pytest.param(path.read_text("utf-8"), good.read_text("utf-8"), id=path.stem)


def class_in(text: str) -> type[nn.Module]:
    made: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, "made.py", "exec"), made)
    return [one for one in made.values() if isinstance(one, type) and one.__module__ == "made"][-1]


def seen_anew(cls: type[nn.Module], x: Tensor) -> Seen:
    """What a new model shows: some that are wrong keep a graph from one run to the next."""
    torch.default_generator.manual_seed(0)
    try:
        model = cls()
    except AttributeError as error:
        return Seen((), (), type(error).__name__)
    return seen(model, x)


def keeps_a_graph(cls: type[nn.Module]) -> bool:
    try:
        held = [one for module in cls().modules() for one in vars(module).values()]
    except AttributeError:
        return False
    return any(isinstance(one, Tensor) and not one.is_leaf for one in held)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("bad", "good"), list(sources()))
def test_of_source(bad: str, good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = fix_text(SourceText(bad), lambda source: findings(source.text))
    assert done.problem is None
    before, after, right = class_in(bad), class_in(done.text), class_in(good)
    rest = next(one for one in REST if not seen_anew(right, torch.randn(2, *one)).error)
    # A PReLU's slopes have a sum for a gradient, which each adds up in an order of its own; and what is computed of a parameter
    # is one itself once it is fixed.
    other = any(isinstance(one, nn.PReLU) for one in after().modules()) or keeps_a_graph(before)

    @SOME
    @given(DRAWN)
    def on(drawn: list[Drawn]) -> None:
        for one in drawn:
            x = tensor(one, rest)
            found = seen_anew(after, x)
            compare(seen_anew(right, x), found)
            wrong = seen_anew(before, x)
            if not wrong.error:
                compare(wrong, found, other)

    on()
