"""What calls give with tensors as values: those of PyTorch, and those of what cannot be seen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.data.torch_names import TENSOR_ATTRIBUTES
from modellint.source.domains import (
    axis_patterns,
    data_dependent_sizes,
    dimension_arguments,
    float_tensors_as_ints,
    masks,
    operator_transfer,
)
from modellint.source.domains.derived_tensors import batch_of, carries_graph, derived, tensors_in
from modellint.source.domains.dimension_arguments import dim_of
from modellint.source.domains.layer_transfer import size_of_weight, with_features
from modellint.source.domains.layout_transfer import broadcast, contracted
from modellint.source.domains.memory_layout import Dim, Layout
from modellint.source.domains.operator_sets import FACTORIES, LIKE, SHOWING, TENSOR_ONLY
from modellint.source.domains.operator_transfer import apply_operator
from modellint.source.domains.symbolic_numbers import Drawn, Length, Limits, Opaque, Shape, Size
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import (
    NUMBER,
    UNKNOWN,
    Argument,
    Const,
    Container,
    Instance,
    Method,
    Named,
    SelfValue,
    Value,
    VersionTruth,
    alternatives,
    union,
)
from modellint.source.engine.arguments import NO_ARGUMENTS, Arguments
from modellint.source.project.symbols import External

if TYPE_CHECKING:
    from modellint.source.engine.class_state import Frame
    from modellint.source.engine.domain import Reader

_TORCH = (
    "torch.",
    "torch.nn.functional.",
    "torch.Tensor.",
    "torch.special.",
    "torch.linalg.",
    "torch.fft.",
    "torch._C._nn.",
)


def external_result(name: str, arguments: Arguments, node: ast.expr, reading: bool, quiet: bool) -> Value | None:
    """What a function outside the project gives; ``quiet`` under `no_grad`."""
    if name in _LIMITS:
        return Limits(name.endswith("iinfo"), _dtype_of(arguments.get(0, "type")))
    if name.startswith("torch."):
        return _torch(name, arguments, node, reading, quiet)
    if reading and name.startswith("einops."):
        parts = tensors_in(arguments.everything())
        if not parts:
            return None
        layout = axis_patterns.rearranged(arguments) if name == "einops.rearrange" else None
        made = derived(node, layout, "rearrange", parts, quiet)
        if name.endswith((".rearrange", ".repeat")) and all(map(masks.is_mask, parts)):
            made.told = {masks.TRUTHS: True}
        return made
    if reading and name in _SUPPRESSIONS:
        parts = tensors_in(arguments.everything())
        if parts:
            kept = derived(node, Layout.contiguous([Dim.symbol()]), "nms", parts, quiet)
            kept.certain = True
            data_dependent_sizes.note(kept)
            return kept
    return None


def registered_state(made: Instance, arguments: Arguments) -> Tensor:
    """A parameter or buffer, with the layout of what it is made of."""
    given = arguments.get(0, "data")
    layout = given.layout if isinstance(given, Tensor) else None
    is_parameter = made.kind == "parameter"
    frozen = arguments.get(1, "requires_grad")
    grad = is_parameter and not (isinstance(frozen, Const) and frozen.value is False)
    return Tensor(made.node, layout, made.kind, kind=made.kind, name=made.name, grad=grad)


def _torch(name: str, arguments: Arguments, node: ast.expr, reading: bool, quiet: bool) -> Value | None:
    path, _, last = name.rpartition(".")
    first = arguments.get(0, "input")
    if path == "torch" and last in FACTORIES:
        wanted = arguments.keywords.get("requires_grad")
        grad = isinstance(wanted, Const) and wanted.value is True
        parts = tensors_in(arguments.positional)
        made = Tensor(
            node, operator_transfer.made_of_sizes(last, arguments), "constant", name=name, grad=grad, made_by=last
        )
        if last == "arange" and reading and float_tensors_as_ints.counts(arguments, node):
            made.told = {float_tensors_as_ints.COUNTED: True}
        if parts and last in ("as_tensor", "normal", "bernoulli", "complex", "polar"):
            made.origin = "computed"
            made.grad = carries_graph(last, [part.grad for part in parts])
        return made
    if last == "pad_packed_sequence" and reading:
        made = Tensor(node, None, certain=True, grad=None, made_by=last, batch=True)
        return Container("tuple", node, [made, Tensor(node, None, made_by=last, batch=True)], exact=True)
    if path == "torch" and last in LIKE and not tensors_in([first or UNKNOWN]):
        return Tensor(node, None, "constant", name=name, made_by=last)
    if path == "torch.cuda" and last.endswith("Tensor"):
        return Tensor(node, operator_transfer.made_of_sizes("Tensor", arguments), "constant", name=name, made_by=last)
    wrapped = arguments.get(0, "data") if last == "Variable" and path.startswith("torch.autograd") else None
    if wrapped is not None:
        wanted = arguments.get(1, "requires_grad")
        grad = isinstance(wanted, Const) and wanted.value is True
        if isinstance(wrapped, Tensor):
            return Tensor(node, wrapped.layout, "constant", name=name, grad=grad, made_by=last)
        # It takes nothing but tensors, and gives one of its own, without a graph.
        return Tensor(node, None, "computed", name=name, grad=grad, made_by=last)
    if not name.startswith(_TORCH) or path not in (part[:-1] for part in _TORCH):
        return None
    if last in ("cat", "concat", "concatenate", "stack"):
        joined = operator_transfer.joined("stack" if last == "stack" else "cat", arguments, node, quiet)
        if isinstance(first, Container):
            float_tensors_as_ints.tell(joined, [part for item in first.items for part in alternatives(item)])
        return joined
    if last in (
        "hstack",
        "vstack",
        "dstack",
        "column_stack",
        "einsum",
        "meshgrid",
        "broadcast_tensors",
        "block_diag",
    ):
        parts = tensors_in(arguments.everything())
        layout = None
        if last == "einsum" and isinstance(first, Const) and isinstance(first.value, str):
            operands = arguments.positional[1:]
            if len(operands) == 1 and isinstance(operands[0], Container) and operands[0].exact:
                # `torch.einsum("ij,jk->ik", [x, y])`
                operands = operands[0].items
            known = [part.layout if isinstance(part, Tensor) else None for part in operands]
            layout = contracted(first.value, known)
        made = derived(node, layout, last, parts, quiet)
        made.certain = True
        if last in ("meshgrid", "broadcast_tensors"):
            float_tensors_as_ints.tell(made, parts)
            return Container("tuple", node, [made])
        return made
    if last == "where" and len(arguments.positional) == 3:
        parts = [part for part in arguments.positional if isinstance(part, Tensor)]
        plain = all(isinstance(part, (Tensor, Const)) for part in arguments.positional)
        layout = broadcast([part.layout for part in parts]) if plain else None
        return derived(node, layout, last, parts, quiet) if parts else None
    if last == "unfold" and path == "torch.nn.functional":
        parts = tensors_in(arguments.everything())
        return derived(node, Layout.contiguous([Dim.symbol() for _ in range(3)]), last, parts, quiet)
    if last == "fold" and path == "torch.nn.functional":
        return derived(node, None, last, tensors_in(arguments.everything()), quiet)
    if last == "scaled_dot_product_attention":
        # Its result lies as the query does: measured with torch 2.13 on the CPU.
        layout = first.layout if isinstance(first, Tensor) else None
        return derived(node, layout, last, tensors_in(arguments.everything()), quiet)
    if last == "embedding":
        features = size_of_weight(arguments.get(1, "weight"), -1)
        indices = first.layout if isinstance(first, Tensor) and features is not None else None
        layout = with_features(indices, features or Dim.symbol())
        return derived(node, layout, last, tensors_in(arguments.everything()), quiet)
    if last in _TRUTHS:
        drawn = [part for part in tensors_in(arguments.positional) if part.is_data]
        return Drawn(drawn[0], node) if drawn else NUMBER
    if last[:1].isupper() or last.startswith(("_", "is_")) or last in _NOT_TENSORS:
        return None
    given = [part for part in alternatives(first) if isinstance(part, Tensor)] if first is not None else []
    if not given:
        others = tensors_in(arguments.everything())
        if path == "torch.nn.functional" or others:
            made = derived(node, None, last, others, quiet)
            made.certain = True
            return made
        return None
    rest = Arguments(arguments.positional[1:], arguments.spread, arguments.keywords)
    return _shown(union([operator_result(last, part, rest, node, quiet, certain=True) for part in given]))


def operator_result(
    name: str, tensor: Tensor, arguments: Arguments, node: ast.expr, quiet: bool, certain: bool = False
) -> Value:
    """What an operator of torch gives of a tensor."""
    made = apply_operator(name, tensor, arguments, node, quiet)
    if name == "item" and tensor.is_data:
        return Drawn(tensor, node)
    if name in ("numel", "nelement") and data_dependent_sizes.is_of_values(tensor):
        return Length(tensor)
    if made is None and name.startswith(("is_", "has_")):
        return NUMBER
    if made is None:
        made = derived(node, None, name, [tensor, *tensors_in(arguments.everything())], quiet)
        made.certain = certain
    if name in masks.FLOATING and isinstance(made, Tensor) and masks.becomes_floats(name, tensor, arguments):
        made.told = {masks.FLOATS: True}
    if name in float_tensors_as_ints.KEEPING:
        float_tensors_as_ints.tell(made, [tensor])
    data_dependent_sizes.tell(name, made, tensor, arguments)
    return made


def method_result(reader: Reader, callee: Method, arguments: Arguments, node: ast.expr, frame: Frame) -> Value | None:
    """What a method of a tensor gives, or one that only tensors have; or `self.register_buffer(…)`."""
    receiver, name = callee.receiver, callee.name
    if isinstance(receiver, Tensor):
        if name in SHOWING:
            receiver.shown = True
        if name.endswith("_") and not name.endswith("__"):
            reader.recorder.wrote(reader, "method", node, receiver, union(arguments.everything()), None, frame)
            float_tensors_as_ints.forget(receiver)
        if name in ("keys", "values", "items", "get", "append") and not receiver.certain:
            return UNKNOWN
        if name == "requires_grad_" and isinstance(node, ast.Call):
            wanted = arguments.get(0, "requires_grad")
            receiver.grad = True if wanted is None else wanted.value is not False if isinstance(wanted, Const) else None
            return receiver
        if name in _TRUTHS:
            return Drawn(receiver, node) if receiver.is_data else NUMBER
        return operator_result(name, receiver, arguments, node, reader.modes.quiet > 0)
    if isinstance(receiver, Shape):
        return NUMBER if name == "numel" else UNKNOWN
    if reader.reading and name in TENSOR_ONLY and type(receiver) in (Value, Opaque, Instance, Argument):
        unseen = _unseen_receiver(receiver, node)
        if unseen is not None:
            return operator_result(name, unseen, arguments, node, reader.modes.quiet > 0)
    if isinstance(receiver, SelfValue) and name == "register_buffer":
        value = arguments.get(1, "tensor")
        if value is not None:
            layout = value.layout if isinstance(value, Tensor) else None
            base = value if isinstance(value, Tensor) else None
            made = Tensor(node, layout, "buffer", kind="buffer", grad=False, base=base)
            reader.named_attribute(arguments.get(0, "name"), made, "register", frame)
        return UNKNOWN
    return None


def _unseen_receiver(receiver: Value, node: ast.expr) -> Tensor | None:
    if isinstance(receiver, Instance) and receiver.kind != "unresolved":
        return None
    return Tensor(node, Layout.unranked(), "unseen", certain=False, grad=None, assumed=True)


def unseen_tensor(made: Instance, arguments: Arguments) -> Value:
    """What code that cannot be seen gives: maybe a tensor, where it is given one."""
    given = tensors_in(arguments.everything())
    if not given:
        return made
    grad = None if any(part.grad is not False for part in given) else False
    return Tensor(
        made.node, Layout.unranked(), "unseen", name=made.name, certain=False, grad=grad, assumed=True,
        batch=batch_of(given),
    )  # fmt: skip


def builtin_result(name: str, arguments: Arguments, node: ast.expr, quiet: bool) -> Value | None:
    """What a builtin gives of a tensor, a shape, a size or a number out of a tensor."""
    first = arguments.get(0)
    taken = next((part for part in arguments.positional if isinstance(part, Drawn)), None)
    if taken is not None and name in ("int", "float", "bool", "abs", "round", "min", "max"):
        return taken
    if isinstance(first, Tensor):
        if name == "hasattr" and first.is_tensor and _names_attribute(arguments.get(1)):
            return VersionTruth(True)
        if name in ("int", "float", "bool", "any", "all") and first.is_data:
            return Drawn(first, node)
        if name == "len" and not data_dependent_sizes.is_of_values(first):
            return dimension_arguments.size(first, 0)
        if name in ("abs", "round"):
            return operator_result(name, first, NO_ARGUMENTS, node, quiet)
    if name == "len" and first is not None:
        # A trace keeps the number; `x.shape[0]` is a symbol to it.
        counted = [part for part in alternatives(first) if isinstance(part, Tensor)]
        if counted and all(map(data_dependent_sizes.is_of_values, alternatives(first))):
            return Drawn(counted[0], node)
    if name == "sum" and first is not None:
        return _added_up(arguments.everything(), node, quiet)
    if name in ("list", "tuple") and isinstance(first, Shape) and first.tensor.rank is not None:
        sizes = [dimension_arguments.size(first.tensor, dim) for dim in range(first.tensor.rank)]
        return Container(name, node, sizes, exact=True)
    if name == "int" and isinstance(first, (Size, Tensor)):
        whole = dim_of(first)
        if whole is not None:
            return Size(whole)
    return None


def _names_attribute(name: Value | None) -> bool:
    """Whether a value is the name of an attribute that all tensors have; what versions older than the table's lack is not told."""
    return isinstance(name, Const) and name.value in TENSOR_ATTRIBUTES


def _added_up(given: list[Value], node: ast.expr, quiet: bool) -> Tensor | None:
    """What Python's `sum` gives of a container of nothing but tensors; the second of ``given`` is what it begins with."""
    items = [part.element() if isinstance(part, Container) else UNKNOWN for part in alternatives(given[0])]
    parts = [part for item in items for part in alternatives(item)]
    if not all(isinstance(part, Tensor) for part in parts):
        return None
    added = tensors_in([*parts, *given[1:]])
    return derived(node, broadcast([part.layout for part in added]), "add", added, quiet)


def _shown(value: Value) -> Value:
    """What a function of torch gave of tensors."""
    for part in tensors_in([value]):
        part.shown = True
    return value


def _dtype_of(value: Value | None) -> str | None:
    """The name of a type of torch's or NumPy's that is written down."""
    match value:
        case Named(symbol=External(name=name)):
            return name.rpartition(".")[2]
        case Const(value=str() as name):
            return name
    return None


_SUPPRESSIONS = frozenset(
    f"torchvision.ops.{module}{name}" for module in ("", "boxes.") for name in ("nms", "batched_nms")
)
"""Functions that give the indices of the boxes that they keep: as many as values decide."""
_LIMITS = frozenset({"torch.finfo", "torch.iinfo", "numpy.finfo", "numpy.iinfo"})
_TRUTHS = frozenset({"equal", "allclose", "is_nonzero"})
"""Functions and methods of tensors that give a `bool`."""
_NOT_TENSORS = frozenset(
    {
        "device",
        "dtype",
        "manual_seed",
        "no_grad",
        "enable_grad",
        "is_tensor",
        "save",
        "load",
        "set_grad_enabled",
        "finfo",
    }
    | {
        "iinfo",
        "compile",
        "get_default_dtype",
        "set_default_dtype",
        "Generator",
        "Size",
        "typename",
        "numel",
        "is_floating_point",
    }
    | {
        "is_complex",
        "is_grad_enabled",
        "inference_mode",
        "autocast",
        "broadcast_shapes",
        "result_type",
        "promote_types",
    }
    | {
        "seed",
        "get_rng_state",
        "set_rng_state",
        "initial_seed",
        "is_storage",
        "set_num_threads",
        "get_num_threads",
        "vmap",
    }
)
