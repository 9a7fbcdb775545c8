"""SHP008: a layer or operator that is given shapes it cannot take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Failure, LiveModel, Run, TensorFact


class ShapeMismatch(Rule):
    """A forward pass that fails because shapes do not fit.

    ## What it does
    Runs the model once on the example inputs, on tensors without values, and finds the layer or operator at which the run
    ends because it cannot take the shapes that it gets. The message says which layer it is, what it got and what it wants.

    ## Why
    Neither route to Core ML gets past the forward pass of the model. PyTorch's message names two matrices; which of forty layers
    they belong to, and which of the two is wrong, has to be found out.

    ## Bad
    ```python
    import torch
    from torch import nn

    inputs = (torch.zeros(4, 3, 28, 28),)


    class Digits(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 5)
            self.pool = nn.MaxPool2d(2)
            self.fc = nn.Linear(400, 10)

        def forward(self, x):
            x = self.pool(self.conv(x))
            return self.fc(x.flatten(1))
    ```

    ## Good
    ```python
    import torch
    from torch import nn

    inputs = (torch.zeros(4, 3, 28, 28),)


    class Digits(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 5)
            self.pool = nn.MaxPool2d(2)
            self.fc = nn.Linear(16 * 12 * 12, 10)

        def forward(self, x):
            x = self.pool(self.conv(x))
            return self.fc(x.flatten(1))
    ```

    ## Fix safety
    There is no fix: whether the layer or what it is given is wrong only the author knows.

    ## Known limits
    The run ends at the first mismatch; what comes after it is not seen. A wrong shape may have come up long before the layer that
    refuses it: `modellint shapes` lists all layers up to there. An error that the model's own code raises about shapes is reported
    as LNT003, but for one: too many or too few names on the left of `= x.shape`.

    ## References
    - <https://pytorch.org/docs/stable/notes/broadcasting.html>
    """

    code = "SHP008"
    name = "shape-mismatch"
    severity = Severity.ERROR
    live_needs = "run"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run whether it ended for the shapes."""
        run = subject.run
        failure = None if run is None else run.failure
        if run is None or failure is None or failure.kind != "shape":
            return
        yield subject.finding(
            self,
            _message(subject, run, failure),
            at=failure.place,
            modules=(failure.module,),
            operator=failure.operator,
            advice=f"PyTorch says: {' '.join(failure.message.split())}",
        )


def _message(subject: LiveModel, run: Run, failure: Failure) -> str:
    layer = _layer(subject, failure)
    call = next((call for call in reversed(run.modules) if call.identity == failure.identity), None)
    if layer is not None and call is not None:
        named = f"`{call.path}` ({type(layer).__name__})" if call.path else f"`{type(layer).__name__}`"
        inputs = _tensors(call.inputs)
        wanted = _wanted(layer, inputs)
        if wanted is not None and inputs:
            return f"{named} got {_shown(inputs)}, and wants {wanted}"
        if type(layer).__module__.partition(".")[0] == "torch" and inputs:
            return f"{named} got {_shown(inputs)}, which it cannot take"
        inside = f" in {named}"
    else:
        inside = ""
    name = failure.function or failure.operator
    if name is None:
        return f"the shapes do not fit{inside}: {' '.join(failure.message.split())}"
    facts = _tensors(failure.arguments)
    sizes = [part for part in failure.arguments if _is_size(part)]
    shown = " and ".join(filter(None, (_shown(facts), *(str(list(size)) for size in sizes))))
    return f"`{name}`{inside} got {shown or 'shapes'}, which {'do' if len(facts) + len(sizes) > 1 else 'does'} not fit"


def _layer(subject: LiveModel, failure: Failure) -> nn.Module | None:
    for entry in subject.modules:
        if id(entry.module) == failure.identity:
            return entry.module
    for hidden in subject.unregistered_state:
        if hidden.kind == "module":
            for module in hidden.value.modules():  # type: ignore[union-attr]
                if id(module) == failure.identity:
                    return module
    return None


def _tensors(value: Any) -> list[TensorFact]:
    from modellint.authoring import TensorFact

    match value:
        case TensorFact():
            return [value]
        case Mapping():
            return [fact for part in value.values() for fact in _tensors(part)]
        case list() | tuple():
            return [fact for part in value for fact in _tensors(part)]
    return []


def _is_size(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(part, int) for part in value)


def _shown(facts: list[TensorFact]) -> str:
    return " and ".join(f"[{', '.join(map(str, fact.shape))}]" for fact in facts)


def _wanted(layer: nn.Module, inputs: list[TensorFact]) -> str | None:
    """What a layer of torch's wants that its input does not have; None where that is not known, or not what is wrong."""
    from torch import nn

    if not inputs:
        return None
    first = inputs[0]
    match layer:
        case nn.Linear():
            return _last(first, layer.in_features)
        case nn.Bilinear():
            sizes = [layer.in1_features, layer.in2_features]
            fits = len(inputs) == 2 and [fact.shape[-1] for fact in inputs if fact.rank] == sizes
            return None if fits else f"last dimensions of {sizes[0]} and {sizes[1]}, and all others the same"
        case nn.modules.conv._ConvNd():
            return _of_convolution(layer, first)
        case nn.modules.batchnorm._NormBase():
            return _of_norm(layer, first)
        case nn.GroupNorm():
            return _channels(first, layer.num_channels, 2, None)
        case nn.LayerNorm():
            return _trailing(first, tuple(layer.normalized_shape))
        case nn.RNNBase():
            return _of_recurrent(layer, inputs)
        case nn.RNNCellBase():
            return _last(first, layer.input_size) or _hidden(inputs[1:], layer.hidden_size)
        case nn.MultiheadAttention():
            return _of_attention(layer, inputs)
        case nn.Embedding() | nn.EmbeddingBag():
            return None if first.rank in (1, 2) else "indices of 1 or 2 dimensions"
    # Since torch 2.4.
    rms_norm = getattr(nn, "RMSNorm", None)
    if rms_norm is not None and isinstance(layer, rms_norm):
        return _trailing(first, tuple(layer.normalized_shape))
    return None


def _last(fact: TensorFact, size: int) -> str | None:
    return None if fact.rank and fact.shape[-1] == size else f"a last dimension of {size}"


def _trailing(fact: TensorFact, sizes: tuple[int, ...]) -> str | None:
    if len(sizes) == 1:
        return _last(fact, sizes[0])
    fits = fact.shape[-len(sizes) :] == sizes
    return None if fits else f"last dimensions of {', '.join(map(str, sizes))}"


def _channels(fact: TensorFact, channels: int, least: int, most: int | None) -> str | None:
    if fact.rank < least or (most is not None and fact.rank > most):
        ranks = f"at least {least}" if most is None else str(least) if least == most else f"{least} or {most}"
        return f"{ranks} dimensions, with {channels} channels in dimension 1"
    return None if fact.shape[1] == channels else f"{channels} channels in dimension 1"


def _of_convolution(layer: Any, fact: TensorFact) -> str | None:
    spatial = len(layer.kernel_size)
    batched = fact.rank == spatial + 2
    if not batched and fact.rank != spatial + 1:
        return f"{spatial + 2} dimensions, with {layer.in_channels} channels in dimension 1"
    at = 1 if batched else 0
    if fact.shape[at] != layer.in_channels:
        # An image without a batch counts as one, so that a batch of vectors fails for its channels.
        rest = "" if batched else f", or {spatial + 2} dimensions with {layer.in_channels} channels in dimension 1"
        return f"{layer.in_channels} channels in dimension {at}{rest}"
    if layer.transposed:
        return None
    reach = [dilation * (size - 1) + 1 for size, dilation in zip(layer.kernel_size, layer.dilation, strict=True)]
    padding = [0] * spatial if isinstance(layer.padding, str) else [2 * margin for margin in layer.padding]
    least = [max(1, size - more) for size, more in zip(reach, padding, strict=True)]
    fits = all(size >= low for size, low in zip(fact.shape[at + 1 :], least, strict=True))
    return None if fits else f"at least {'x'.join(map(str, least))} in the last dimensions"


_RANKS = {"1d": (2, 3), "2d": (4, 4), "3d": (5, 5)}


def _of_norm(layer: Any, fact: TensorFact) -> str | None:
    name = next((base.__name__ for base in type(layer).__mro__ if base.__name__.lower()[-2:] in _RANKS), "")
    least, most = _RANKS.get(name.lower()[-2:], (2, None))
    if "Instance" in name:
        # These take an input without a batch too.
        spatial = 3 if most is None else most - 2
        if fact.rank == spatial + 1:
            return None if fact.shape[0] == layer.num_features else f"{layer.num_features} channels in dimension 0"
        least = most = spatial + 2
    return _channels(fact, layer.num_features, least, most)


def _of_recurrent(layer: nn.RNNBase, inputs: list[TensorFact]) -> str | None:
    first = inputs[0]
    if first.rank not in (2, 3):
        return f"2 or 3 dimensions, the last of {layer.input_size}"
    wrong = _last(first, layer.input_size)
    if wrong is not None or len(inputs) == 1 or first.rank == 2:
        return wrong
    batch = first.shape[0 if layer.batch_first else 1]
    layers = layer.num_layers * (2 if layer.bidirectional else 1)
    return f"a hidden state of [{layers}, {batch}, {layer.proj_size or layer.hidden_size}]"


def _hidden(states: list[TensorFact], size: int) -> str | None:
    return next(
        (f"a hidden state with a last dimension of {size}" for fact in states if fact.shape[-1:] != (size,)), None
    )


def _of_attention(layer: nn.MultiheadAttention, inputs: list[TensorFact]) -> str | None:
    sizes = [layer.embed_dim, layer.kdim, layer.vdim]
    if len(inputs) < 3:
        return None
    if [fact.shape[-1] for fact in inputs[:3] if fact.rank] != sizes:
        return "last dimensions of " + ", ".join(map(str, sizes)) + " for query, key and value"
    if inputs[0].rank not in (2, 3) or len({fact.rank for fact in inputs[:3]}) > 1:
        return "2 or 3 dimensions, the same number for query, key and value"
    batch = 0 if layer.batch_first else 1
    if inputs[0].rank == 3 and len({fact.shape[batch] for fact in inputs[:3]}) > 1:
        order = "(batch, sequence, embedding)" if layer.batch_first else "(sequence, batch, embedding)"
        return f"one batch size in dimension {batch}: its inputs are {order}"
    if inputs[1].shape[:-1] != inputs[2].shape[:-1]:
        return "key and value of one length"
    return None
