"""Random models as Python text: 3 to 12 operators of all kinds, each of which runs.

``draw(seed)`` gives the text of one model, what its inputs are, and how it is to be exported. The text is grown statement by
statement: one is kept where the model still runs on several draws of its inputs, and on other sizes of what is flexible.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

LARGEST = 1e5
"""Of a value on inputs from a normal distribution."""
MOST = 400
"""Elements of a value."""


class Argument(NamedTuple):
    """An input of a model."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: int = 0
    high: int = 0
    """Of integers; the end is excluded."""
    bounds: tuple[tuple[int, int, int], ...] = ()
    """Flexible dimensions, with the least and the largest size."""


@dataclass
class Model:
    """A random model."""

    seed: int
    text: str
    arguments: tuple[Argument, ...]
    theme: str
    target: str | None
    precision: str
    states: bool
    operators: int
    families: list[str] = field(default_factory=list)

    def build(self) -> nn.Module:
        """The model itself, in evaluation mode."""
        return built(self.text)

    def example(self) -> tuple[Tensor, ...]:
        """The inputs to export with: integers hold both ends of their range."""
        return drawn(self.arguments, torch.Generator().manual_seed(self.seed), {})

    @property
    def flexible(self) -> dict[int, dict[int, tuple[int, int]]]:
        """As ``modellint.export`` takes it."""
        return {
            at: {dim: (low, high) for dim, low, high in one.bounds}
            for at, one in enumerate(self.arguments)
            if one.bounds
        }


def built(text: str) -> nn.Module:
    """The module of a text."""
    made: dict[str, Any] = {"__name__": "random_model"}
    exec(compile(text, "random_model.py", "exec"), made)
    model: nn.Module = made["Net"]()
    return model.eval()


def drawn(arguments: tuple[Argument, ...], draw: torch.Generator, sizes: dict[int, int]) -> tuple[Tensor, ...]:
    """Inputs of the usual kind; ``sizes``: of all flexible dimensions, by the number of their group."""
    found = []
    for one in arguments:
        shape = list(one.shape)
        for group, (dim, _low, _high) in enumerate(one.bounds):
            shape[dim] = sizes.get(group, shape[dim])
        found.append(usual(one, tuple(shape), draw))
    return tuple(found)


def usual(one: Argument, shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    if one.dtype == "bool":
        return torch.rand(shape, generator=draw) < 0.6
    if one.dtype.startswith("int"):
        made = torch.randint(one.low, one.high, shape, generator=draw)
        flat = made.view(-1)
        if flat.numel() > 1:
            flat[0], flat[-1] = one.low, one.high - 1
        return made.to(getattr(torch, one.dtype))
    return torch.randn(shape, generator=draw)


class Nothing(Exception):
    """No value that a statement needs."""


class Value(NamedTuple):
    """What a name stands for in ``forward``."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    fixed: tuple[bool, ...]
    """Whether a dimension is of the same size always."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    def size(self, dim: int) -> str:
        """A dimension's size, as text."""
        dim %= self.rank
        return str(self.shape[dim]) if self.fixed[dim] else f"{self.name}.shape[{dim}]"


FLOATS = (torch.float32,)
INTS = (torch.int64, torch.int32)


class Draft:
    """A model that grows."""

    def __init__(self, rng: random.Random, theme: str, arguments: tuple[Argument, ...], is_flexible: bool) -> None:
        self.rng = rng
        self.theme = theme
        self.arguments = arguments
        self.is_flexible = is_flexible
        self.init: list[str] = []
        self.body: list[str] = []
        self.values: list[Value] = []
        self.used: set[str] = set()
        self.count = 0
        self.layers = 0
        # Of the statement that is tried:
        self.more: list[str] = []

    def pick(self, wanted: Callable[[Value], bool]) -> Value:
        """A value, sooner a late one or one that nothing reads."""
        found = [one for one in self.values if wanted(one)]
        if not found:
            raise Nothing
        weights = [(4 if one.name not in self.used else 1) * (1 + at) for at, one in enumerate(found)]
        return self.rng.choices(found, weights)[0]

    def floats(self, least: int = 0, most: int = 5, solid: bool = False) -> Value:
        """A float value of a rank; ``solid``: none of its dimensions is flexible."""
        return self.pick(
            lambda one: (
                one.dtype in FLOATS
                and least <= one.rank <= most
                and (not solid or all(one.fixed))
                and 0 not in one.shape
            )
        )

    def ints(self, least: int = 0, most: int = 5) -> Value:
        return self.pick(lambda one: one.dtype in INTS and least <= one.rank <= most and 0 not in one.shape)

    def bools(self, least: int = 0, most: int = 5) -> Value:
        return self.pick(lambda one: one.dtype == torch.bool and least <= one.rank <= most and 0 not in one.shape)

    def any(self, least: int = 0, most: int = 5) -> Value:
        return self.pick(lambda one: least <= one.rank <= most and 0 not in one.shape)

    def layer(self, text: str) -> str:
        name = f"l{self.layers + len(self.more)}"
        self.more.append(f"self.{name} = {text}")
        return f"self.{name}"

    def buffer(self, text: str) -> str:
        name = f"b{self.layers + len(self.more)}"
        self.more.append(f'self.register_buffer("{name}", {text})')
        return f"self.{name}"

    def dim(self, value: Value) -> int:
        """One of its dimensions, counted from either end."""
        if not value.rank:
            raise Nothing
        at = self.rng.randrange(value.rank)
        return at - value.rank if self.rng.random() < 0.4 else at

    def number(self) -> str:
        return self.rng.choice(["0.5", "2.0", "-1.5", "0.1", "3.0", "1e-3", "0.25", "-0.7"])

    def mate(self, value: Value, kinds: tuple[torch.dtype, ...] = FLOATS) -> str:
        """Something that broadcasts with a value: another one, a buffer or a number."""
        others = [
            one
            for one in self.values
            if one.dtype in kinds and one.name != value.name and _broadcasts(one, value) and one.rank <= 5
        ]
        if others and self.rng.random() < 0.6:
            return self.rng.choice(others).name
        if value.rank and value.fixed[-1] and self.rng.random() < 0.4 and kinds == FLOATS:
            return self.buffer(f"torch.linspace(-1.5, 1.7, {value.shape[-1]})")
        return self.number() if kinds == FLOATS else str(self.rng.choice([1, 2, 3, 5, 7, -2]))


def _broadcasts(one: Value, other: Value) -> bool:
    return all(
        (a == b and one.fixed[-1 - at] == other.fixed[-1 - at]) or a == 1 or b == 1
        for at, (a, b) in enumerate(zip(reversed(one.shape), reversed(other.shape), strict=False))
    )


Proposal = Callable[[Draft, str], str]
PROPOSALS: dict[str, list[tuple[float, Proposal]]] = {}


def proposal(family: str, weight: float = 1.0) -> Callable[[Proposal], Proposal]:
    def declared(function: Proposal) -> Proposal:
        PROPOSALS.setdefault(family, []).append((weight, function))
        return function

    return declared


# Element by element.

_UNARY = [
    "torch.relu",
    "torch.tanh",
    "torch.sigmoid",
    "torch.exp",
    "torch.sin",
    "torch.cos",
    "torch.abs",
    "torch.neg",
    "torch.square",
    "F.gelu",
    "F.silu",
    "F.softplus",
    "F.elu",
    "F.hardtanh",
    "F.hardswish",
    "F.hardsigmoid",
    "F.mish",
    "F.relu6",
    "F.leaky_relu",
    "torch.floor",
    "torch.ceil",
    "torch.round",
    "torch.sign",
    "torch.erf",
    "torch.atan",
    "torch.expm1",
    "F.softsign",
    "F.logsigmoid",
    "F.selu",
    "torch.trunc",
    "torch.sinh",
    "F.tanhshrink",
    "F.softshrink",
    "torch.frac",
    "torch.asinh",
    "torch.reciprocal",
    "torch.log1p",
    "torch.sqrt",
    "torch.rsqrt",
    "torch.log",
    "torch.acos",
    "torch.tan",
    "torch.logit",
    "torch.exp2",
    "torch.log2",
    "torch.nan_to_num",
]
_DOMAIN = {
    "torch.reciprocal": "{}.abs() + 0.5",
    "torch.log1p": "{}.abs()",
    "torch.sqrt": "{}.abs()",
    "torch.rsqrt": "{}.abs() + 0.1",
    "torch.log": "{}.abs() + 0.2",
    "torch.log2": "{}.abs() + 0.2",
    "torch.acos": "{}.clamp(-0.9, 0.9)",
    "torch.tan": "{}.clamp(-1, 1)",
    "torch.logit": "{}.sigmoid()",
    "torch.exp": "{}.clamp(max=5)",
    "torch.exp2": "{}.clamp(max=5)",
    "torch.sinh": "{}.clamp(-4, 4)",
    "torch.expm1": "{}.clamp(max=5)",
}


@proposal("element", 4)
def _unary(d: Draft, out: str) -> str:
    x, function = d.floats(), d.rng.choice(_UNARY)
    given = x.name
    if function in _DOMAIN and d.rng.random() < 0.75:
        given = _DOMAIN[function].format(x.name)
    return f"{out} = {function}({given})"


@proposal("element", 4)
def _arithmetic(d: Draft, out: str) -> str:
    x = d.floats()
    y = d.mate(x)
    form = d.rng.choice(
        ["{x} + {y}", "{x} - {y}", "{y} - {x}", "{x} * {y}", "{x} * {y} + {x}", "torch.maximum({x}, torch.as_tensor({y}))",
         "{x} / ({y} * {y} + 1.5)", "torch.add({x}, {y}, alpha=2)", "torch.sub({x}, {y}, alpha=0.5)", "torch.fmod({x}, 1.7)",
         "torch.remainder({x}, 1.3)", "{x} % 2.5", "{x} // 0.7", "torch.pow({x}, 2)", "({x}.abs() + 0.1) ** 1.5", "torch.rsub({x}, 2.0)",
         "torch.lerp({x}, {x} * 2, 0.3)", "torch.atan2({x}, torch.as_tensor({y}) + 0.1)", "torch.hypot({x}, {x} + 1)", "torch.minimum({x}, {x}.flip(-1))",
         "torch.floor_divide({x}, 0.6)", "torch.div({x}, 0.4, rounding_mode='trunc')", "torch.addcmul({x}, {x}, {x}, value=0.5)",
         "torch.logaddexp({x}, {x} * 0.5)", "torch.xlogy({x}, {x}.abs() + 1)", "{x}.float_power(2).float()", "torch.square({x}) - {y}"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, y=y)}"


@proposal("element")
def _clamped(d: Draft, out: str) -> str:
    x = d.floats()
    form = d.rng.choice(
        ["{x}.clamp(-0.5, 1.0)", "{x}.clamp(min=0.2)", "torch.clamp({x}, max=0.3)", "torch.clip({x}, -1, 1)", "F.threshold({x}, 0.1, -2.0)",
         "F.hardshrink({x}, 0.4)", "{x}.clamp({x}.mean(), None)", "F.celu({x}, 0.7)", "F.gelu({x}, approximate='tanh')", "F.glu(torch.cat([{x}, {x}], -1), -1)",
         "F.rrelu({x})", "F.dropout({x}, 0.3, self.training)", "torch.heaviside({x}, torch.tensor(0.5))", "F.normalize({x}, dim=-1)", "F.hardtanh({x}, -0.3, 0.8)"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name)}"


# Layers.


@proposal("layer", 3)
def _linear(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and 1 <= one.rank <= 4 and one.fixed[-1] and one.shape[-1] <= 64)
    width = d.rng.randint(1, 6)
    bias = "" if d.rng.random() < 0.7 else ", bias=False"
    return f"{out} = {d.layer(f'nn.Linear({x.shape[-1]}, {width}{bias})')}({x.name})"


@proposal("layer", 2)
def _conv1d(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and one.rank in (2, 3) and one.fixed[-2] and one.shape[-2] <= 8)
    c = x.shape[-2]
    groups = d.rng.choice([1, c]) if d.rng.random() < 0.3 else 1
    made = groups * d.rng.randint(1, 3)
    kind = d.rng.choice(["Conv1d", "Conv1d", "Conv1d", "ConvTranspose1d"])
    extra = d.rng.choice(["", ", padding=1", ", stride=2, padding=1", ", padding=2, dilation=2", ", bias=False"])
    if kind == "Conv1d" and d.rng.random() < 0.15:
        extra = ', padding="same"'
    return f"{out} = {d.layer(f'nn.{kind}({c}, {made}, {d.rng.randint(1, 3)}{extra}, groups={groups})')}({x.name})"


@proposal("layer", 2)
def _conv2d(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and one.rank in (3, 4) and one.fixed[-3] and one.shape[-3] <= 8)
    c = x.shape[-3]
    groups = d.rng.choice([1, c]) if d.rng.random() < 0.3 else 1
    made = groups * d.rng.randint(1, 3)
    kind = d.rng.choice(["Conv2d", "Conv2d", "Conv2d", "ConvTranspose2d"])
    kernel = d.rng.choice(["1", "2", "3", "(1, 3)", "(2, 1)"])
    extra = d.rng.choice(
        ["", ", padding=1", ", stride=2, padding=1", ", stride=(1, 2)", ", bias=False", ", padding=(1, 0)"]
    )
    if kind == "Conv2d" and d.rng.random() < 0.15:
        extra = d.rng.choice(
            [', padding="same"', ", padding=1, padding_mode='reflect'", ", padding=1, padding_mode='circular'"]
        )
    return f"{out} = {d.layer(f'nn.{kind}({c}, {made}, {kernel}{extra}, groups={groups})')}({x.name})"


@proposal("layer", 3)
def _norm(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and 2 <= one.rank <= 5 and one.fixed[1] and one.fixed[-1])
    c, last = x.shape[1], x.shape[-1]
    made = [
        f"nn.LayerNorm({last})",
        f"nn.LayerNorm({last}, eps=1e-3, elementwise_affine=False)",
        f"nn.GroupNorm(1, {c})",
        f"nn.GroupNorm({c}, {c})",
    ]
    if c % 2 == 0:
        made.append(f"nn.GroupNorm(2, {c})")
    if x.rank in (2, 3):
        made += [f"nn.BatchNorm1d({c})", f"nn.BatchNorm1d({c}, affine=False)"]
    if x.rank == 3:
        made += [f"nn.InstanceNorm1d({c}, affine=True)"]
    if x.rank == 4:
        made += [
            f"nn.BatchNorm2d({c})",
            f"nn.BatchNorm2d({c}, eps=1e-2)",
            f"nn.InstanceNorm2d({c})",
            "nn.LocalResponseNorm(3)",
        ]
    made += [f"nn.RMSNorm({last})", f"nn.PReLU({c})", "nn.PReLU()", f"nn.PReLU({c})"]
    return f"{out} = {d.layer(d.rng.choice(made))}({x.name})"


@proposal("layer")
def _recurrent(d: Draft, out: str) -> str:
    x = d.pick(
        lambda one: (
            one.dtype in FLOATS and one.rank in (2, 3) and all(one.fixed) and one.shape[0] <= 5 and one.shape[-1] <= 8
        )
    )
    kind, width = d.rng.choice(["GRU", "LSTM", "GRU", "LSTM", "RNN"]), d.rng.randint(1, 4)
    extra = d.rng.choice(["", ", batch_first=True", ", bidirectional=True", ", num_layers=2", ", bias=False"])
    layer = d.layer(f"nn.{kind}({x.shape[-1]}, {width}{extra})")
    form = d.rng.choice(["{l}({x})[0]", "{l}({x})[0]", "{l}({x})[1]"])
    if "[1]" in form and kind == "LSTM":
        form += f"[{d.rng.randint(0, 1)}]"
    return f"{out} = {form.format(l=layer, x=x.name)}"


@proposal("layer")
def _cell(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and one.rank == 2 and one.fixed[-1] and one.shape[-1] <= 8)
    width = d.rng.randint(1, 4)
    kind = d.rng.choice(["GRUCell", "LSTMCell", "RNNCell"])
    return f"{out} = {d.layer(f'nn.{kind}({x.shape[-1]}, {width})')}({x.name})" + ("[0]" if kind == "LSTMCell" else "")


@proposal("layer", 2)
def _pool(d: Draft, out: str) -> str:
    if d.rng.random() < 0.5:
        x = d.floats(3, 4)
        form = d.rng.choice(
            ["F.max_pool2d({x}, 2)", "F.avg_pool2d({x}, 2)", "F.max_pool2d({x}, 3, 1, 1)", "F.avg_pool2d({x}, 3, 2, 1)", "F.adaptive_avg_pool2d({x}, 1)",
             "F.adaptive_avg_pool2d({x}, (2, 1))", "F.adaptive_max_pool2d({x}, 1)", "F.avg_pool2d({x}, 2, ceil_mode=True)", "F.max_pool2d({x}, 2, ceil_mode=True)",
             "F.avg_pool2d({x}, 3, 1, 1, count_include_pad=False)", "F.interpolate({x}, scale_factor=2)", "F.interpolate({x}, size=(4, 3), mode='bilinear')",
             "F.interpolate({x}, scale_factor=2, mode='bilinear', align_corners=True)", "F.interpolate({x}, size=(3, 5), mode='nearest')", "F.pixel_unshuffle({x}, 2)",
             "F.lp_pool2d({x}, 2.0, 2)", "F.unfold({x}, 2)", "F.interpolate({x}, size=(6, 4), mode='area')"]
        )  # fmt: skip
    else:
        x = d.floats(2, 3)
        form = d.rng.choice(
            ["F.max_pool1d({x}, 2)", "F.avg_pool1d({x}, 2)", "F.adaptive_avg_pool1d({x}, 1)", "F.adaptive_max_pool1d({x}, 1)", "F.avg_pool1d({x}, 3, 1, 1)",
             "F.max_pool1d({x}, 3, 2, 1)", "F.avg_pool1d({x}, 2, ceil_mode=True)", "F.interpolate({x}, scale_factor=2)", "F.adaptive_avg_pool1d({x}, 2)"]
        )  # fmt: skip
    return f"{out} = {form.format(x=x.name)}"


@proposal("layer")
def _embedding(d: Draft, out: str) -> str:
    x = d.ints(0, 3)
    rows = d.rng.randint(3, 7)
    layer = d.layer(f"nn.Embedding({rows}, {d.rng.randint(1, 5)})")
    return f"{out} = {layer}({x.name} % {rows})"


@proposal("layer")
def _channel(d: Draft, out: str) -> str:
    x = d.floats(3, 4)
    form = d.rng.choice(
        [
            "F.channel_shuffle({x}, 2)",
            "nn.Flatten(1)({x})",
            "F.one_hot({x}.argmax(-1), {s}).float()",
            "F.pixel_shuffle({x}, 2)",
        ]
    )
    return f"{out} = {form.format(x=x.name, s=x.size(-1))}"


# Reductions.


@proposal("reduce", 4)
def _reduction(d: Draft, out: str) -> str:
    x = d.floats(1)
    dim = d.dim(x)
    keep = d.rng.choice(["", ", keepdim=True"])
    form = d.rng.choice(
        ["{x}.sum({d}{k})", "{x}.mean({d}{k})", "{x}.amax({d}{k})", "{x}.amin({d}{k})", "{x}.max({d}{k})[0]", "{x}.min({d}{k}).values", "{x}.var({d}{k})",
         "{x}.std({d}, unbiased=False{k})", "torch.logsumexp({x}, {d}{k})", "{x}.norm(dim={d}{k})", "torch.linalg.vector_norm({x}, 1, {d}{k})", "{x}.cumsum({d})",
         "{x}.prod({d}{k})", "{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.std()", "{x}.var()", "{x}.norm()", "{x}.abs().max()", "{x}.sum(({d},){k})",
         "{x}.median({d}{k}).values", "torch.var_mean({x}, {d})[1]", "{x}.flip({d})", "{x}.diff(dim={d})", "{x}.cumprod({d})", "torch.cummax({x}, {d})[0]",
         "{x}.roll(1, {d})", "torch.aminmax({x}, dim={d})[0]", "{x}.argmax({d}{k})", "{x}.argmin({d})", "{x}.argmax()", "torch.count_nonzero({x} > 0.2, {d})"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, d=dim, k=keep)}"


@proposal("reduce", 2)
def _softmax(d: Draft, out: str) -> str:
    x = d.floats(1)
    form = d.rng.choice(
        [
            "{x}.softmax({d})",
            "F.log_softmax({x}, {d})",
            "F.softmax({x} * 3, {d})",
            "F.softmin({x}, {d})",
            "torch.softmax({x}, {d}, dtype=torch.float32)",
        ]
    )
    return f"{out} = {form.format(x=x.name, d=d.dim(x))}"


# Attention.


@proposal("attention", 3)
def _attention(d: Draft, out: str) -> str:
    x = d.floats(3, 4)
    form = d.rng.choice(
        ["F.scaled_dot_product_attention({x}, {x}, {x})", "F.scaled_dot_product_attention({x}, {x}, {x} + 1, is_causal=True)",
         "F.scaled_dot_product_attention({x}, {x}, {x}, attn_mask=({x} @ {x}.transpose(-1, -2)) > 0)",
         "F.scaled_dot_product_attention({x}, {x} * 0.5, {x}, attn_mask={x} @ {x}.transpose(-1, -2))",
         "F.scaled_dot_product_attention({x}, {x}, {x}, scale=0.3)",
         "({x} @ {x}.transpose(-1, -2) * 0.5).softmax(-1) @ {x}",
         "torch.matmul({x}.transpose(-1, -2), {x})", "torch.einsum('bij,bkj->bik', {x}, {x})",
         "({x} @ {x}.transpose(-1, -2)).masked_fill(torch.ones({s}, {s}, dtype=torch.bool).triu(1), float('-inf')).softmax(-1) @ {x}",
         "({x} @ {x}.transpose(-1, -2)).tril().softmax(-1)", "torch.bmm({x}, {x}.transpose(1, 2))"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, s=x.size(-2))}"


@proposal("attention", 3)
def _masked_attention(d: Draft, out: str) -> str:
    m, x = d.bools(1, 4), d.floats(3, 4)
    form = d.rng.choice(
        ["F.scaled_dot_product_attention({x}, {x}, {x}, attn_mask={m})", "({x} @ {x}.transpose(-1, -2)).masked_fill({m}, -1e4).softmax(-1) @ {x}",
         "({x} @ {x}.transpose(-1, -2)).masked_fill(~{m}, float('-inf')).softmax(-1)", "({x} @ {x}.transpose(-1, -2) + (1.0 - {m}.float()) * -1e4).softmax(-1) @ {x}",
         "({x} @ {x}.transpose(-1, -2)).masked_fill(~{m}, torch.finfo(torch.float32).min).softmax(-1)"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, m=m.name)}"


@proposal("attention")
def _heads(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and one.rank == 3 and one.fixed[-1] and one.shape[-1] % 2 == 0)
    layer = d.layer(f"nn.MultiheadAttention({x.shape[-1]}, {d.rng.choice([1, 2])}, batch_first=True)")
    return f"{out} = {layer}({x.name}, {x.name}, {x.name}, need_weights=False)[0]"


@proposal("attention", 0.5)
def _encoder(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and one.rank == 3 and all(one.fixed) and one.shape[-1] % 2 == 0)
    layer = d.layer(
        f"nn.TransformerEncoderLayer({x.shape[-1]}, 2, 8, batch_first=True, norm_first={d.rng.choice(['True', 'False'])})"
    )
    return f"{out} = {layer}({x.name})"


# Shapes.


def _parts(d: Draft, x: Value) -> tuple[str, str]:
    """Sizes for a view that merges two dimensions, and for one that splits one in two."""
    at = d.rng.randrange(x.rank - 1)
    merged = [x.size(k) for k in range(x.rank)]
    both = (
        f"{x.size(at)} * {x.size(at + 1)}"
        if not (x.fixed[at] and x.fixed[at + 1])
        else str(x.shape[at] * x.shape[at + 1])
    )
    merged[at : at + 2] = [both if d.rng.random() < 0.5 else "-1"]
    return ", ".join(merged), ", ".join(x.size(k) for k in reversed(range(x.rank)))


@proposal("shape", 4)
def _moved(d: Draft, out: str) -> str:
    x = d.any(2)
    one, other = d.dim(x), d.dim(x)
    order = list(range(x.rank))
    d.rng.shuffle(order)
    form = d.rng.choice(
        ["{x}.transpose({a}, {b})", "{x}.permute({o})", "{x}.transpose({a}, {b}).contiguous()", "{x}.movedim({a}, {b})", "{x}.flatten()", "{x}.flatten(0, 1)",
         "{x}.reshape({m})", "{x}.reshape({r})", "{x}.reshape(-1)", "{x}.transpose({a}, {b}).reshape({r})", "{x}.view({m})", "{x}.mT", "{x}.swapaxes({a}, {b})",
         "{x}.permute({o}).flatten(-2)", "{x}.rot90(1, (0, 1))", "torch.tile({x}, (2, 1))", "{x}.repeat_interleave(2, {a})", "{x}.unflatten({a}, (-1, 1))",
         "{x}.flip([0, -1])", "torch.fliplr({x})"]
    )  # fmt: skip
    merged, reverse = _parts(d, x)
    return f"{out} = {form.format(x=x.name, a=one, b=other, o=', '.join(map(str, order)), m=merged, r=reverse)}"


@proposal("shape", 3)
def _extended(d: Draft, out: str) -> str:
    x = d.any(0, 4)
    form = d.rng.choice(
        ["{x}.unsqueeze(0)", "{x}.unsqueeze(-1)", "{x}[None]", "{x}[..., None]", "{x}.unsqueeze(0).expand(2, {star})", "{x}.unsqueeze(-1).expand({star}3)", "{x}.squeeze()",
         "{x}.repeat({two})", "{x}.expand_as({x})", "torch.broadcast_to({x}, (2, {star}))", "{x}.squeeze(0)", "{x}.unsqueeze(1)", "torch.atleast_2d({x})"]
    )  # fmt: skip
    star = "".join("-1, " for _ in range(x.rank))
    if "broadcast_to" in form:
        star = "".join(f"{x.size(k)}, " for k in range(x.rank))
    two = ", ".join(["2"] + ["1"] * max(x.rank - 1, 0))
    return f"{out} = {form.format(x=x.name, star=star, two=two)}"


@proposal("shape", 3)
def _joined(d: Draft, out: str) -> str:
    x = d.any(1, 4)
    others = [one for one in d.values if one.dtype == x.dtype and one.shape == x.shape and one.fixed == x.fixed]
    y = d.rng.choice(others)
    form = d.rng.choice(
        ["torch.cat([{x}, {y}], {d})", "torch.stack([{x}, {y}], {d})", "torch.cat([{x}, {y}, {x}], {d})", "torch.stack([{y}, {x}])", "torch.hstack([{x}, {y}])",
         "torch.cat([{x}[:1], {y}], 0)", "torch.vstack([{x}, {y}])", "torch.concat([{y}, {x}], {d})", "torch.cat([{x}, torch.zeros_like({y})], {d})"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, y=y.name, d=d.dim(x))}"


@proposal("shape", 3)
def _divided(d: Draft, out: str) -> str:
    x = d.any(1, 5)
    dim = d.dim(x)
    form = d.rng.choice(
        ["{x}.split(1, {d})[-1]", "{x}.chunk(2, {d})[0]", "{x}.chunk(2, {d})[-1]", "{x}.unbind({d})[0]", "torch.stack({x}.unbind({d}), 0)", "sum({x}.split(2, {d})[:1])",
         "torch.cat({x}.chunk(2, {d})[::-1], {d})", "{x}.narrow({d}, 0, 1)", "{x}.select({d}, -1)", "torch.tensor_split({x}, 2, {d})[1]", "{x}.unfold({d}, 2, 1)"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, d=dim)}"


@proposal("shape", 2)
def _padded(d: Draft, out: str) -> str:
    x = d.floats(1, 4)
    form = d.rng.choice(
        ["F.pad({x}, (1, 2))", "F.pad({x}, (0, 1), value=-1.5)", "F.pad({x}, (1, 0, 2, 1))", "F.pad({x}, (1, 1), mode='reflect')", "F.pad({x}, (1, 1), mode='replicate')",
         "F.pad({x}, (-1, 1))", "F.pad({x}, (1, 1), mode='circular')", "F.pad({x}, (1, 1, 1, 1), mode='replicate')", "F.pad({x}, (0, 0, 0, 1))", "F.pad({x}, (0, -1))"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name)}"


@proposal("shape")
def _padded_int(d: Draft, out: str) -> str:
    x = d.ints(1, 3)
    return f"{out} = F.pad({x.name}, (1, 1), value={d.rng.choice([0, 5, -1, 16777217])})"


@proposal("shape")
def _triangle(d: Draft, out: str) -> str:
    x = d.floats(2, 4)
    form = d.rng.choice(
        [
            "torch.tril({x})",
            "torch.triu({x}, 1)",
            "{x}.tril(-1)",
            "torch.diagonal({x}, 0, -2, -1)",
            "torch.diag({x}[0])",
            "torch.einsum('...ij->...ji', {x})",
        ]
    )
    return f"{out} = {form.format(x=x.name)}"


@proposal("shape")
def _made(d: Draft, out: str) -> str:
    x = d.any(1, 4)
    form = d.rng.choice(
        ["torch.arange({s}) + {x}.sum()", "torch.zeros_like({x}) + {n}", "torch.ones({s})* {x}.float().mean()", "torch.full_like({x}.float(), 0.3) - {x}.float()",
         "torch.linspace(0, 1, {s}) * {x}.float().mean()", "{x}.new_zeros({s}) + {x}.sum()", "torch.eye({s}) * {x}.float().mean()", "torch.arange({s}, dtype=torch.float32) * 0.1 + {x}.float().mean()",
         "torch.full(({s},), 2) + {x}.sum()", "{x}.new_ones({s}, 2).float()  * {x}.float().mean()", "torch.arange({s} - 1, -1, -1)"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, s=x.size(d.dim(x)), n=d.number())}"


# Indices.


@proposal("index", 4)
def _sliced(d: Draft, out: str) -> str:
    x = d.any(1, 5)
    form = d.rng.choice(
        ["{x}[0]", "{x}[-1]", "{x}[1:]", "{x}[:, 0]", "{x}[..., -1]", "{x}[:-1]", "{x}[..., ::2]", "{x}[..., 1:]", "{x}[:, None]", "{x}[..., :2]", "{x}[-2:]", "{x}[:, 1:, ...]",
         "{x}[0:1]", "{x}[..., -3:-1]", "{x}[:, -1:]", "{x}[:, [1, 0]]", "{x}[[0, -1]]", "{x}[:, :, 0]", "{x}[0, ..., 1:]"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name)}"


@proposal("index", 4)
def _taken(d: Draft, out: str) -> str:
    x, i = d.any(1, 4), d.ints(0, 2)
    dim = d.rng.randrange(x.rank)
    size = x.size(dim)
    safe = f"{i.name} % {size}"
    form = d.rng.choice(
        ["{x}.index_select({d}, ({i}).reshape(-1))", "{x}[({i})]", "torch.take({x}, {i0} % {n})", "{x}[:, ({i})]", "{x}[({i}), ({i})]", "{x}[..., ({i}), :]",
         "torch.take_along_dim({x}, ({i}).reshape(-1)[:1].reshape({ones}).expand({shape}), {d})", "{x}[({i}) - {s}]", "{x}[0, ({i})]", "{x}[({i}), :, None]", "{x}[None, ({i})]",
         "{x}[({i})[..., None], torch.arange(2)]", "{x}[({i}), 0]"]
    )  # fmt: skip
    if "({i}), ({i})" in form or form.startswith(("{x}[({i})", "{x}[None")):
        safe = f"{i.name} % {x.size(0)}"
        size = x.size(0)
    ones = ", ".join(["1"] * x.rank)
    shape = ", ".join("1" if k == dim else x.size(k) for k in range(x.rank))
    return f"{out} = {form.format(x=x.name, d=dim, i=safe, i0=i.name, n=f'{x.name}.numel()', s=size, ones=ones, shape=shape)}"


@proposal("index", 3)
def _gathered(d: Draft, out: str) -> str:
    x = d.floats(1, 4)
    dim = d.dim(x)
    form = d.rng.choice(
        ["{x}.gather({d}, {x}.argsort({d}))", "{x}.gather({d}, {x}.argmax({d}, keepdim=True))", "{x}.sort(dim={d}, stable=True)[0]", "{x}.sort({d}, descending=True)[1]", "{x}.topk(2, {d})[0]",
         "{x}.topk(1, {d})[1]", "{x}.topk(2, {d}, largest=False)[0]", "{x}.argsort(dim={d}, stable=True)", "torch.zeros_like({x}).scatter({d}, {x}.argmax({d}, keepdim=True), 1.0)",
         "torch.zeros_like({x}).scatter_add({d}, ({x} > 0).long(), {x})", "{x}.scatter({d}, {x}.argmin({d}, keepdim=True), -1.0)", "{x}.max({d})[1]", "{x}.min({d})[1]", "torch.sort({x}, dim={d}, descending=True, stable=True)[1]",
         "{x}.kthvalue(1, {d})[0]", "{x}.index_add({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1))", "{x}.scatter_reduce({d}, {x}.argmax({d}, keepdim=True), {x}, 'amax')",
         "{x}.index_copy({d}, torch.tensor([0]), {x}.narrow({d}, -1, 1))", "torch.searchsorted({x}.flatten().sort()[0], {x})", "torch.bucketize({x}, torch.tensor([-1.0, 0.0, 0.5]))"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, d=dim)}"


@proposal("index", 3)
def _gathered_by(d: Draft, out: str) -> str:
    i = d.ints(1, 4)
    x = d.pick(
        lambda one: one.rank == i.rank and one.shape == i.shape and one.fixed == i.fixed and one.dtype != torch.bool
    )
    dim = d.dim(x)
    form = d.rng.choice(
        ["{x}.gather({d}, ({i} % {s}).long())", "torch.zeros_like({x}).scatter_add({d}, ({i} % {s}).long(), {x})", "torch.zeros_like({x}).scatter_reduce({d}, ({i} % {s}).long(), {x}, 'sum')",
         "torch.take_along_dim({x}, ({i} % {s}).long(), {d})", "{x}.scatter_add({d}, ({i} % {s}).long(), {x})"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, d=dim, i=i.name, s=x.size(dim))}"


@proposal("index", 2)
def _put(d: Draft, out: str) -> str:
    x, i = d.floats(1, 3), d.ints(0, 1)
    form = d.rng.choice(
        ["{x}.index_fill(0, ({i} % {s}).reshape(-1).long(), 0.5)", "{x}.index_put((({i} % {s}),), torch.tensor(1.5))", "{x}.index_put((({i} % {s}),), torch.tensor(0.5), accumulate=True)",
         "{x}.index_add(0, ({i} % {s}).reshape(-1), torch.ones_like({x}).index_select(0, ({i} % {s}).reshape(-1)))"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, i=i.name, s=x.size(0))}"


# Masks.


@proposal("mask", 3)
def _compared_floats(d: Draft, out: str) -> str:
    x = d.floats()
    y = d.mate(x)
    form = d.rng.choice(
        ["{x} > {y}", "{x} >= {y}", "{x} < 0", "{x} <= {y}", "{x} == {y}", "{x} != {y}", "{x}.isnan()", "({x} > 0) & ({x} < 1)", "({x} > 0) | ({x} < -1)", "({x} > 0) ^ ({x} > {y})", "torch.isclose({x}, {x} * 1.0)",
         "{x}.bool()", "torch.isfinite({x})", "~({x} > 0.3)", "({x} > 0).any(-1)", "({x} > -1).all(-1)", "({x} > 0).any()", "torch.signbit({x})", "torch.logical_and({x} > 0, {x} < {y})", "torch.isinf({x})",
         "torch.logical_not({x})", "torch.eq({x}, 0)"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, y=y)}"


@proposal("mask", 4)
def _filled(d: Draft, out: str) -> str:
    x = d.floats()
    masks = [one for one in d.values if one.dtype == torch.bool and _broadcasts(one, x)]
    m = d.rng.choice(masks).name if masks and d.rng.random() < 0.8 else f"({x.name} > {d.number()})"
    form = d.rng.choice(
        ["{x}.masked_fill({m}, {n})", "torch.where({m}, {x}, {x} * {n})", "torch.where({m}, {x}, {n})", "torch.where({m}, {n}, {x})", "{x} * {m}", "{x}.masked_fill(~{m}, 0)", "torch.where({m}, {x}, torch.zeros(()))",
         "{x} - {m}.float()", "torch.where({m}, {x}, {x}.mean())", "{x} * (~{m}).to({x}.dtype)", "{m}.float() + {x}", "torch.where({m}, 1, 0) * {x}", "torch.masked_fill({x}, {m}, -1.5)"]
    )  # fmt: skip
    return f"{out} = {form.format(x=x.name, m=m, n=d.number())}"


@proposal("mask", 2)
def _logic(d: Draft, out: str) -> str:
    m = d.bools()
    masks = [one for one in d.values if one.dtype == torch.bool and _broadcasts(one, m)]
    k = d.rng.choice(masks).name
    form = d.rng.choice(
        ["~{m}", "{m} & {k}", "{m} | {k}", "{m} ^ {k}", "torch.logical_not({m})", "torch.logical_or({m}, {k})", "{m}.float()", "{m}.long()", "{m}.int().sum()", "{m}.any()", "{m}.all()", "{m}.sum(-1)", "{m}.any(-1)",
         "{m}.all(0)", "{m}.long().cumsum(-1)", "torch.logical_xor({m}, {k})", "{m} == {k}", "{m} != {k}", "{m}.to(torch.float32).mean()", "torch.cat([{m}, {k}], 0)", "{m}.int().argmax(-1)", "{m}[..., :1]", "{m}.flip(0)",
         "{m} * 2", "{m}.sum()", "{m}.t()", "torch.where({m}, {k}, ~{k})", "{m}.float().max()"]
    )  # fmt: skip
    return f"{out} = {form.format(m=m.name, k=k)}"


@proposal("mask", 2)
def _mask_gather(d: Draft, out: str) -> str:
    m = d.bools(1, 3)
    form = d.rng.choice(
        [
            "{m}[torch.arange({s}).flip(0)]",
            "{m}.index_select(0, torch.tensor([0]))",
            "{m}[[0]]",
            "{m}.gather(-1, {m}.long().argsort(-1))",
            "{m}[torch.arange({s})[:, None], torch.arange({s})[None] * 0]",
            "{m}.expand(2, {star})",
        ]
    )
    return f"{out} = {form.format(m=m.name, s=m.size(0), star=', '.join(['-1'] * m.rank))}"


@proposal("mask", 2)
def _mask_index(d: Draft, out: str) -> str:
    x = d.any(1, 3)
    form = d.rng.choice(
        [
            "{x}[{x} > 0].sum()",
            "torch.masked_select({x}, {x} > 0).sum()",
            "{x}[{m}].sum(0)",
            "{x}.nonzero().sum()",
            "{x}[{m}].mean()",
            "({x} > 0).nonzero().shape[0] + {x}.sum()",
            "torch.where({x} > 0)[0].sum()",
            "{x}[{x} != 0].max()",
        ]
    )
    masks = [
        one
        for one in d.values
        if one.dtype == torch.bool and one.rank <= x.rank and one.shape == x.shape[: one.rank] and one.rank
    ]
    m = d.rng.choice(masks).name if masks else f"{x.name} > 0"
    return f"{out} = {form.format(x=x.name, m=m)}"


# Integers.


@proposal("int", 4)
def _int_arithmetic(d: Draft, out: str) -> str:
    i = d.ints()
    j = d.mate(i, INTS)
    form = d.rng.choice(
        ["{i} + {j}", "{i} - {j}", "{i} * {j}", "{i} // 3", "{i} % 5", "{i} // -2", "torch.remainder({i}, -3)", "torch.fmod({i}, 4)", "-{i}", "{i}.abs()", "{i} // ({j} * {j} + 1)", "{i} % ({j} * {j} + 2)", "{i} / 4", "{i} / ({j} * {j} + 1)",
         "torch.div({i}, 3, rounding_mode='trunc')", "torch.div({i}, 3, rounding_mode='floor')", "torch.maximum({i}, {i} * 0 + 2)", "{i}.clamp(0, 3)", "{i} ** 2", "torch.floor_divide({i}, 4)", "torch.square({i})", "torch.sign({i})",
         "{i} * 2 + {j}", "torch.minimum({i}, torch.as_tensor({j}))", "{i}.pow(3)", "torch.bitwise_and({i}, 3)", "{i} << 1", "{i} >> 1", "{i} & 1", "torch.gcd({i}, {i} * 0 + 6)", "{i} * 1000", "torch.clamp({i}, min=1)", "100 // ({i}.abs() + 1)", "({i} * 7) // 9"]
    )  # fmt: skip
    return f"{out} = {form.format(i=i.name, j=j)}"


@proposal("int", 3)
def _int_compared(d: Draft, out: str) -> str:
    i = d.ints()
    j = d.mate(i, INTS)
    form = d.rng.choice(
        [
            "{i} > {j}",
            "{i} == {j}",
            "{i} != 0",
            "{i} <= {j}",
            "({i} % 2) == 0",
            "{i} >= 1",
            "{i}.bool()",
            "({i} > 1) & ({i} < 4)",
            "torch.isin({i}, torch.tensor([1, 3]))",
            "{i}.eq({j})",
        ]
    )
    return f"{out} = {form.format(i=i.name, j=j)}"


@proposal("int", 3)
def _int_reduced(d: Draft, out: str) -> str:
    i = d.ints(1)
    form = d.rng.choice(
        ["{i}.sum()", "{i}.sum({d})", "{i}.max()", "{i}.amax({d})", "{i}.min({d})[0]", "{i}.cumsum({d})", "{i}.argmax({d})", "{i}.float().mean({d})", "{i}.sort(dim={d}, stable=True)[0]", "{i}.prod({d})", "{i}.topk(1, {d})[0]", "{i}.amin()", "{i}.float().mean()", "{i}.flip({d})",
         "{i}.sum({d}, keepdim=True)", "({i} > 0).sum({d})", "{i}.argsort(dim={d}, stable=True)", "{i}.unique().numel() + {i}.sum()", "torch.bincount({i}.flatten() % 4, minlength=4)", "{i}.all()", "{i}.any({d})", "F.one_hot({i} % 4, 4)"]
    )  # fmt: skip
    return f"{out} = {form.format(i=i.name, d=d.dim(i))}"


@proposal("int", 3)
def _cast(d: Draft, out: str) -> str:
    x = d.any()
    form = d.rng.choice(["{x}.float()", "{x}.long()", "{x}.int()", "{x}.to(torch.int32)", "{x}.bool()", "{x}.to(torch.float32) * 0.5", "({x} * 3).long()", "{x}.type(torch.int64)", "{x}.round().int()", "{x}.float() + 0.5", "{x}.to(torch.int32).float()", "{x}.floor().long()",
                         "{x}.half().float()", "{x}.double().float()", "{x}.type_as(torch.zeros(1))", "{x}.short().int()", "{x}.to(torch.uint8).int()"])  # fmt: skip
    return f"{out} = {form.format(x=x.name)}"


@proposal("int", 2)
def _mixed(d: Draft, out: str) -> str:
    i, x = d.ints(0, 3), d.floats(0, 4)
    if not _broadcasts(i, x):
        raise Nothing
    form = d.rng.choice(
        [
            "{x} * {i}",
            "{x} + {i}",
            "{i} - {x}",
            "torch.where({i} > 1, {x}, -{x})",
            "{x} / ({i} * {i} + 1)",
            "{x} > {i}",
            "torch.where({i} > 0, {i}, {x})",
            "{x} ** ({i} % 3)",
            "{i} * 0.5 + {x}",
            "{x}.masked_fill({i} == 0, -1.0)",
        ]
    )
    return f"{out} = {form.format(x=x.name, i=i.name)}"


# In place. Each makes a copy first, or writes into what it is sure to own.


def _own(d: Draft, x: Value, out: str) -> str:
    return d.rng.choice(
        [f"{out} = {x.name}.clone()", f"{out} = {x.name} * 1", f"{out} = {x.name} + 0"]
        + ([f"{out} = {x.name} * 1.5"] if x.dtype in FLOATS else [])
    )


@proposal("inplace", 4)
def _inplace(d: Draft, out: str) -> str:
    x = d.floats()
    form = d.rng.choice(
        ["{o}.add_({y})", "{o}.mul_({y})", "{o}.sub_({y})", "{o}.clamp_(-1, 1)", "{o}.relu_()", "{o}.fill_(0.5)", "{o} += {y}", "{o} *= {y}", "{o}.masked_fill_({o} > 0, 0.3)", "F.relu({o}, inplace=True)", "{o}.exp_().add_(1)", "{o}.div_(2)", "{o}.neg_()",
         "{o}.zero_().add_({x})", "{o}.copy_({x} * 2)", "{o}.sigmoid_()", "{o}.clamp_(min=0)", "{o} -= {x}.mean()", "{o}.abs_().sqrt_()", "{o}.lerp_({x} * 2, 0.5)", "{o}.pow_(2)", "{o}.round_()", "{o}.addcmul_({x}, {x})"]
    )  # fmt: skip
    return (
        _own(d, x, out)
        + "\n"
        + form.format(o=out, x=x.name, y=d.mate(x) if d.rng.random() < 0.7 else f"{x.name}.mean()")
    )


@proposal("inplace", 6)
def _inplace_view(d: Draft, out: str) -> str:
    x = d.floats(1, 4)
    last = f"{out}v"
    view = d.rng.choice(
        ["{o}[0]", "{o}[..., 0]", "{o}[1:]", "{o}.view(-1)", "{o}.flatten()", "{o}[..., :2]", "{o}.transpose(0, -1)", "{o}[-1]", "{o}[:, 0]", "{o}.select(-1, 0)", "{o}.narrow(0, 0, 1)", "{o}.unsqueeze(0)", "{o}.chunk(2, 0)[0]", "{o}[..., ::2]", "{o}.view(-1)[::2]",
         "{o}.permute({p})", "{o}.split(1, -1)[0]", "{o}.unbind(0)[0]", "{o}.squeeze()", "{o}.t()", "{o}.diagonal()", "{o}.expand_as({o})", "{o}.reshape(-1)", "{o}[None, 0]", "{o}.T", "{o}.unfold(0, 2, 2)"]
    )  # fmt: skip
    write = d.rng.choice(
        ["{v}.add_(1)", "{v}.mul_(3)", "{v}.zero_()", "{v}.clamp_(min=0)", "{v}.fill_(0.7)", "{v}.copy_({v} * 2)", "{v}.sub_({v}.mean())", "{v} += 2", "{v}.relu_()", "{v}.masked_fill_({v} > 0, -1)", "{v}[0].mul_(2)", "{v}.neg_()", "{v}[...] = 0.25", "{v}[..., 0] = 3.0",
         "{v}.exp_()"]
    )  # fmt: skip
    p = ", ".join(map(str, reversed(range(x.rank))))
    own = _own(d, x, out)
    v = view.format(o=out, p=p)
    if d.rng.random() < 0.5:
        return f"{own}\n{last} = {v}\n{write.format(v=last)}"
    return f"{own}\n" + (write.format(v=v) if not write.startswith("{v} +=") else f"{v}.add_(2)")


@proposal("inplace", 5)
def _assigned(d: Draft, out: str) -> str:
    x = d.any(1, 4)
    at = d.rng.choice(
        [
            "0",
            "-1",
            "1:",
            "..., 0",
            "..., -1",
            ":, 0",
            "..., 1:",
            "..., ::2",
            ":1",
            ":, 1:",
            "0, ...",
            "-2:",
            ":, :, 0",
            "0:1",
            "..., None, 0",
        ]
    )
    value = {torch.bool: ["True", "False", f"~{x.name}[{at}]"]}.get(
        x.dtype,
        ["2", f"{x.name}[{at}] * 2", f"{out}[{at}] + 1", f"{x.name}.sum()", "-1", f"{x.name}[{at}].flip(0)"]
        + (["0.5", f"{x.name}.mean()"] if x.dtype in FLOATS else []),
    )
    return f"{_own(d, x, out) if x.dtype != torch.bool else f'{out} = {x.name}.clone()'}\n{out}[{at}] {d.rng.choice(['=', '=', '=', '+=', '*='])} {d.rng.choice(value)}"


@proposal("inplace", 3)
def _assigned_by_index(d: Draft, out: str) -> str:
    x, i = d.pick(lambda one: 1 <= one.rank <= 3 and one.dtype != torch.bool), d.ints(0, 1)
    form = d.rng.choice(
        ["{o}[{i} % {s}] = {n}", "{o}[({i} % {s}).reshape(-1)] = {n}", "{o}[:, {i} % {t}] = {n}", "{o}[({i} % {s}).reshape(-1)[:1]] += 1", "{o}.index_fill_(0, ({i} % {s}).reshape(-1).long(), {n})", "{o}[torch.tensor([0])] = {x}[:1] * 2", "{o}[{i} % {s}, 0] = {n}", "{o}[[0, -1]] = {n}", "{o}[..., [0]] *= 2",
         "{o}.index_add_(0, torch.tensor([0]), {x}[:1])", "{o}[torch.arange(1), {i} % {t}] = {n}", "{o}[0, {i} % {t}] = {n}"]
    )  # fmt: skip
    t = x.size(1) if x.rank > 1 else "1"
    return (
        _own(d, x, out)
        + "\n"
        + form.format(
            o=out,
            x=x.name,
            i=i.name,
            s=x.size(0),
            t=t,
            n=d.rng.choice(["0", "2", "-1"] + (["0.5"] if x.dtype in FLOATS else [])),
        )
    )


@proposal("inplace", 4)
def _assigned_by_mask(d: Draft, out: str) -> str:
    x = d.pick(lambda one: 1 <= one.rank <= 4 and one.dtype != torch.bool)
    masks = [one for one in d.values if one.dtype == torch.bool and one.shape == x.shape[: one.rank] and one.rank]
    m = d.rng.choice(masks).name if masks and d.rng.random() < 0.7 else f"{x.name} > 0"
    form = d.rng.choice(
        [
            "{o}[{m}] = {n}",
            "{o}[{m}] += 1",
            "{o}[{m}] = {x}[{m}] * 2",
            "{o}[{m}] *= -1",
            "{o}.masked_fill_({m}, {n})",
            "{o}[~({m})] = {n}",
            "{o}[{m}] = 0",
            "{o}[({m}).nonzero(as_tuple=True)] = {n}",
        ]
    )
    return (
        _own(d, x, out)
        + "\n"
        + form.format(
            o=out, x=x.name, m=m, n=d.rng.choice(["0", "2", "-1"] + (["0.5", "1e-3"] if x.dtype in FLOATS else []))
        )
    )


@proposal("inplace", 2)
def _int_inplace(d: Draft, out: str) -> str:
    i = d.ints()
    form = d.rng.choice(
        [
            "{o}.add_(2)",
            "{o} += {i}",
            "{o}.mul_(3)",
            "{o} //= 2",
            "{o} %= 3",
            "{o}.clamp_(0, 2)",
            "{o}.fill_(4)",
            "{o}.zero_()",
            "{o} -= 1",
            "{o}.masked_fill_({i} > 1, 7)",
            "{o}.floor_divide_(2)",
            "{o}.neg_()",
        ]
    )
    return _own(d, i, out) + "\n" + form.format(o=out, i=i.name)


# States.


@proposal("state", 5)
def _state(d: Draft, out: str) -> str:
    x = d.pick(lambda one: one.dtype in FLOATS and 1 <= one.rank <= 3 and all(one.fixed))
    shape = ", ".join(map(str, x.shape))
    start = d.rng.choice([f"torch.zeros({shape})", f"torch.zeros({shape})", f"torch.ones({shape}) * 0.5"])
    b = d.buffer(start)
    n = d.number()
    form = d.rng.choice(
        ["{b}.add_({x})\n{o} = {b} * 2", "{b}.mul_(0.9).add_({x} * 0.1)\n{o} = {x} - {b}", "{b}.copy_({x})\n{o} = {b} + 1", "{o} = {b} + {x}\n{b}.copy_({x})", "{b}[0] = {x}[0]\n{o} = {b} + {x}", "{b}[1:] = {b}[:-1].clone()\n{b}[0] = {x}[0]\n{o} = {b} * 1",
         "{b} += {x} * 0.5\n{o} = {b}.tanh()", "{b}.mul_(0.5)\n{b}.add_({x})\n{o} = {b} + {x}", "{o} = {x} + {b}\n{b}.fill_({n})", "{b}.lerp_({x}, 0.3)\n{o} = {b} - 1", "{b}[..., 0] += {x}[..., 0]\n{o} = {b} * {x}", "{b} = torch.maximum({b}, {x})\n{o} = {b} * 1",
         "{b} = 0.9 * {b} + 0.1 * {x}\n{o} = {x} + {b}", "{b}.clamp_(-1, 1).add_({x})\n{o} = {b}.sum(-1)", "{o} = {b} * {x}\n{b}.zero_().add_({x})", "{b}.masked_fill_({x} > 0, 1.0)\n{o} = {b} + 0", "{b}.copy_(torch.roll({b}, 1, 0) + {x})\n{o} = {b}.clone()",
         "{b}[:1].copy_({x}[:1])\n{o} = torch.cat([{b}, {x}])", "{b}.copy_({b})\n{o} = {b} + {x}", "{b}.copy_(torch.where({x} > {b}, {x}, {b}))\n{o} = {b} * 0.5", "{b}.view(-1).add_({x}.view(-1))\n{o} = {b} * 1"]
    )  # fmt: skip
    return form.format(b=b, x=x.name, o=out, n=n)


# Models.

THEMES: dict[str, dict[str, float]] = {
    "general": {"element": 4, "layer": 4, "reduce": 3, "attention": 1.5, "shape": 4, "index": 3, "mask": 2, "int": 1, "inplace": 2},
    "masks": {"element": 2, "layer": 2, "reduce": 2, "attention": 4, "shape": 2, "index": 2, "mask": 7, "int": 1, "inplace": 2},
    "ints": {"element": 1.5, "layer": 1.5, "reduce": 1, "shape": 2, "index": 4, "mask": 2, "int": 8, "inplace": 2},
    "inplace": {"element": 2, "layer": 2, "reduce": 1, "shape": 3, "index": 2, "mask": 1.5, "int": 1, "inplace": 8},
    "states": {"element": 3, "layer": 3, "reduce": 1.5, "shape": 2, "index": 1, "mask": 1, "int": 0.5, "inplace": 1, "state": 5},
    "flexible": {"element": 3, "layer": 4, "reduce": 3, "attention": 2, "shape": 4, "index": 3, "mask": 2, "int": 1.5, "inplace": 2},
    "layers": {"element": 3, "layer": 9, "reduce": 2, "attention": 3, "shape": 3, "index": 1},
}  # fmt: skip
SHARES = {"general": 22, "masks": 14, "ints": 16, "inplace": 16, "states": 9, "flexible": 13, "layers": 10}
_HEAD = """import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
"""
_WEIGHTS = """        draw = torch.Generator().manual_seed({seed})
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=draw) * 0.5)
            for m in self.modules():
                for name, b in m.named_buffers(recurse=False):
                    if name == "running_var":
                        b.copy_(torch.rand(b.shape, generator=draw) + 0.3)
                    elif name == "running_mean":
                        b.copy_(torch.randn(b.shape, generator=draw) * 0.3)
"""


def _arguments(rng: random.Random, theme: str) -> tuple[Argument, ...]:
    rank = rng.choices([1, 2, 3, 4], [1, 4, 5, 3])[0]
    shape = tuple(rng.randint(2, 5) if at else rng.randint(1, 4) for at in range(rank))
    found: list[Argument] = []
    if theme == "flexible":
        dim = rng.choices(range(rank), [3] + [2] * (rank - 1))[0]
        low, high = rng.choice([(1, 4), (1, 8), (2, 6), (1, 6), (3, 7)])
        shape = tuple(rng.randint(low + (high > low), high) if at == dim else size for at, size in enumerate(shape))
        found.append(Argument("x0", shape, "float32", bounds=((dim, low, high),)))
        if rng.random() < 0.3:
            found.append(Argument("x1", shape, "float32", bounds=((dim, low, high),)))
        elif rng.random() < 0.3:
            found.append(Argument("x1", shape, "bool", bounds=((dim, low, high),)))
        elif rng.random() < 0.3:
            found.append(Argument("x1", (rng.randint(2, 4),), "int64", 0, rng.randint(2, 9)))
        return tuple(found)
    if theme == "ints":
        low, high = rng.choice([(0, 5), (0, 2), (-6, 7), (0, 100), (-1000, 1001), (1, 9), (0, 40000), (0, 2**24 + 10)])
        found.append(Argument("x0", shape[: rng.randint(1, rank)], rng.choice(["int64", "int64", "int32"]), low, high))
        if rng.random() < 0.6:
            found.append(Argument("x1", shape, "float32"))
        if rng.random() < 0.3:
            found.append(Argument(f"x{len(found)}", (rng.randint(1, 4),), "int64", 0, rng.randint(2, 9)))
        return tuple(found)
    found.append(Argument("x0", shape, "float32"))
    if theme == "masks":
        kind = rng.choice(["same", "same", "square", "first", "last"])
        mask = {
            "same": shape,
            "square": (shape[-2], shape[-2]) if rank > 1 else shape,
            "first": shape[:1],
            "last": shape[-1:],
        }[kind]
        found.append(Argument("x1", mask, "bool"))
    if rng.random() < 0.35:
        found.append(Argument(f"x{len(found)}", shape if rng.random() < 0.6 else shape[-1:], "float32"))
    if rng.random() < 0.3:
        found.append(
            Argument(
                f"x{len(found)}",
                (rng.randint(1, 4),),
                rng.choice(["int64", "int32"]),
                *rng.choice([(0, 4), (-3, 4), (0, 50)]),
            )
        )
    if rng.random() < 0.12 and theme != "masks":
        found.append(Argument(f"x{len(found)}", shape, "bool"))
    return tuple(found)


class _Run(NamedTuple):
    values: dict[str, Tensor]
    outputs: tuple[Tensor, ...]


def _text(draft: Draft, seed: int, returned: str) -> str:
    names = ", ".join(one.name for one in draft.arguments)
    init = "".join(f"        {line}\n" for line in draft.init)
    body = "".join(f"        {line}\n" for line in draft.body)
    return (
        f"{_HEAD}{init}{_WEIGHTS.format(seed=seed)}\n    def forward(self, {names}):\n{body}        return {returned}\n"
    )


def _tried(draft: Draft, seed: int, given: list[tuple[Tensor, ...]]) -> list[dict[str, Tensor]]:
    """All names of ``forward`` on each of the inputs. Raises what the model raises."""
    found = []
    text = _text(draft, seed, "{k: v for k, v in locals().items() if isinstance(v, torch.Tensor)}")
    with torch.no_grad():
        model = built(text)
        for one in given:
            names: dict[str, Tensor] = model(*[value.clone() for value in one])
            found.append({name: value.clone() for name, value in names.items()})
    return found


def _sizes(arguments: tuple[Argument, ...], rng: random.Random) -> list[dict[int, int]]:
    bounds = next((one.bounds for one in arguments if one.bounds), ())
    if not bounds:
        return [{}, {}]
    _, low, high = bounds[0]
    return [{}, {0: low}, {0: high}, {0: rng.randint(low, high)}]


def draw(seed: int) -> Model:
    """The model of a seed."""
    attempt = 0
    while True:
        found = _drawn(random.Random(f"{seed}/{attempt}"), seed)
        if found is not None:
            return found
        attempt += 1


def _drawn(rng: random.Random, seed: int) -> Model | None:
    theme = rng.choices(list(SHARES), list(SHARES.values()))[0]
    arguments = _arguments(rng, theme)
    draft = Draft(rng, theme, arguments, theme == "flexible")
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    given = [drawn(arguments, generator, sizes) for sizes in _sizes(arguments, rng)]
    _take(draft, _tried(draft, seed, given), [one.name for one in arguments])
    wanted, families = rng.randint(3, 12), []
    tries = 0
    while draft.count < wanted and tries < 150:
        tries += 1
        if theme == "states" and draft.count == 0:
            family = "state"
        else:
            weights = THEMES[theme]
            family = rng.choices(list(weights), list(weights.values()))[0]
        if _grow(draft, seed, family, given):
            families.append(family)
    if draft.count < 3:
        return None
    return _finished(draft, seed, theme, families, given)


def _grow(draft: Draft, seed: int, family: str, given: list[tuple[Tensor, ...]]) -> bool:
    made = PROPOSALS[family]
    out = f"v{draft.count}"
    draft.more = []
    before = list(draft.init), list(draft.body), draft.layers
    try:
        text = draft.rng.choices([one for _, one in made], [weight for weight, _ in made])[0](draft, out)
        draft.layers += len(draft.more)
        draft.init += draft.more
        draft.body += text.split("\n")
        names = _tried(draft, seed, given)
        if not _is_good(names, out, family):
            raise Nothing
    except Exception:
        draft.init, draft.body, draft.layers = before
        return False
    draft.count += 1
    right = text.split(f"{out} = ", 1)[-1]
    draft.used.update(one.name for one in draft.values if _mentions(right, one.name))
    _take(draft, names, [out])
    return True


def _mentions(text: str, name: str) -> bool:
    import re

    return re.search(rf"\b{name}\b", text) is not None


def _is_good(names: list[dict[str, Tensor]], out: str, family: str) -> bool:
    first = names[0][out]
    for one in names:
        value = one[out]
        if value.dtype != first.dtype or value.dim() != first.dim() or not 0 < value.numel() <= MOST or value.dim() > 5:
            return False
        if value.dtype not in (torch.float32, torch.int64, torch.int32, torch.bool):
            return False
        if value.is_floating_point() and (not value.isfinite().all() or float(value.abs().max()) > LARGEST):
            return False
        if value.dtype in INTS and int(value.abs().max()) >= 2**30:
            return False
    # What never changes teaches nothing; in-place writes may leave a constant.
    return (
        family in ("inplace", "state")
        or any(one[out].shape != first.shape or not torch.equal(one[out], first) for one in names[1:])
        or first.dtype == torch.bool
    )


def _take(draft: Draft, names: list[dict[str, Tensor]], added: list[str]) -> None:
    for name in added:
        shapes = {tuple(one[name].shape) for one in names}
        first = names[0][name]
        fixed = tuple(len({shape[at] for shape in shapes}) == 1 for at in range(first.dim()))
        draft.values.append(Value(name, tuple(first.shape), first.dtype, fixed))


def _finished(
    draft: Draft, seed: int, theme: str, families: list[str], given: list[tuple[Tensor, ...]]
) -> Model | None:
    rng = draft.rng
    own = [one for one in draft.values if one.name.startswith("v")]
    free = [one for one in own if one.name not in draft.used]
    returned = [own[-1], *[one for one in free if one is not own[-1]][-3:]]
    if rng.random() < 0.2:
        returned = returned[:1]
    if rng.random() < 0.15 and len(own) > 3:
        returned.append(rng.choice(own[:-1]))
    names = list(dict.fromkeys(one.name for one in returned))
    text = _text(draft, seed, ", ".join(names))
    # Arguments that no output depends on make a package without them.
    for one in draft.arguments:
        if not any(_mentions(line, one.name) for line in draft.body):
            text = text.replace(
                f"return {', '.join(names)}\n",
                f"return {', '.join(names)}, {one.name} * 2\n"
                if one.dtype != "bool"
                else f"return {', '.join(names)}, ~{one.name}\n",
            )
            break
    target = "iOS18" if theme == "states" else rng.choices([None, "iOS16", "iOS17", "iOS18"], [5, 1, 2, 2])[0]
    precision = "fp16" if rng.random() < 0.15 else "fp32"
    model = Model(seed, text, draft.arguments, theme, target, precision, theme == "states", draft.count, families)
    try:
        with torch.no_grad():
            built_model = model.build()
            for one in [*given, model.example()]:
                outputs = built_model(*[value.clone() for value in one])
                if not all(
                    isinstance(value, Tensor) for value in (outputs if isinstance(outputs, tuple) else (outputs,))
                ):
                    return None
    except Exception:
        return None
    return model
