"""What calls give with tensors as values: those of PyTorch, and those of what cannot be seen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains import dimension_arguments, layer_transfer, operator_transfer, tensors
from modellint.source.domains.dimension_arguments import dim_of
from modellint.source.domains.memory_layout import Dim, Layout
from modellint.source.domains.operator_transfer import apply_operator
from modellint.source.domains.result_tensors import derived, tensors_in
from modellint.source.domains.tensors import Drawn, Limits, Opaque, Shape, Size, Tensor
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
    alternatives,
    union,
)
from modellint.source.engine.calls import NO_ARGUMENTS, Arguments
from modellint.source.engine.class_state import Frame
from modellint.source.engine.recorded_operations import Recorder
from modellint.source.project.symbols import External

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile

_TORCH = (
    "torch.",
    "torch.nn.functional.",
    "torch.Tensor.",
    "torch.special.",
    "torch.linalg.",
    "torch.fft.",
    "torch._C._nn.",
)


class TensorCalls(Recorder):
    """A reading in which calls give tensors."""

    def __init__(self, project: Project, cls: ClassRef | None, file: IndexedFile) -> None:
        super().__init__(project, cls, file)
        self._parts: dict[tuple[Tensor, str], Tensor] = {}

    def apply_to(self, callee: Value, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        """The value of calling ``callee``."""
        if self.reading:
            arguments = self._opened(arguments)
        if isinstance(callee, Instance) and callee.kind == "module":
            output = layer_transfer.module_output(callee, arguments.get(0), node, self._is_quiet())
            if isinstance(output, Tensor) and output.origin == "unseen" and output.batch is None:
                # What it is given by name, or behind the first.
                output.batch = tensors.batch_of(tensors_in(arguments.everything()))
            return output
        made = super().apply_to(callee, arguments, node, frame)
        if type(made) is Instance and made.kind == "unresolved" and self.reading:
            return self._unseen_tensor(made, arguments)
        return made

    def _opened(self, arguments: Arguments) -> Arguments:
        if not any(isinstance(value, Method) for value in (*arguments.positional, *arguments.keywords.values())):
            return arguments
        positional = [self.part_of_output(value) for value in arguments.positional]
        keywords = {name: self.part_of_output(value) for name, value in arguments.keywords.items()}
        return Arguments(positional, arguments.spread, keywords)

    def part_of_output(self, value: Value) -> Value:
        """What `outputs.last_hidden_state` is, where `outputs` was given by a module that was not followed: maybe a tensor."""
        if not (isinstance(value, Method) and self.reading and isinstance(value.receiver, Tensor)):
            return value
        output = value.receiver
        if output.certain or output.shown or output.origin != "unseen" or not tensors.may_be_part(value.name):
            return value
        key = output, value.name
        if key not in self._parts:
            self._parts[key] = Tensor(
                output.node, Layout.unranked(), "unseen", certain=False, grad=output.grad, assumed=True, batch=output.batch
            )  # fmt: skip
        return self._parts[key]

    def _external(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        if name in _LIMITS:
            return Limits(name.endswith("iinfo"), _dtype_of(arguments.get(0, "type")))
        if name.startswith("torch."):
            made = self._torch(name, arguments, node)
            if made is not None:
                return made
        elif name.partition(".")[0] in ("einops", "numpy", "math") and self.reading:
            parts = tensors_in(arguments.everything())
            if parts and name.startswith("einops."):
                return derived(node, None, "rearrange", parts, self._is_quiet())
        made = super()._external(name, arguments, node, frame)
        if isinstance(made, Instance) and type(made) is Instance and made.kind in ("parameter", "buffer"):
            return self._registered_state(made, arguments)
        return made

    def _registered_state(self, made: Instance, arguments: Arguments) -> Tensor:
        """A parameter or buffer, with the layout of what it is made of."""
        given = arguments.get(0, "data")
        layout = given.layout if isinstance(given, Tensor) else None
        is_parameter = made.kind == "parameter"
        frozen = arguments.get(1, "requires_grad")
        grad = is_parameter and not (isinstance(frozen, Const) and frozen.value is False)
        return Tensor(made.node, layout, made.kind, kind=made.kind, name=made.name, grad=grad)

    def _torch(self, name: str, arguments: Arguments, node: ast.expr) -> Value | None:
        path, _, last = name.rpartition(".")
        first = arguments.get(0, "input")
        if path == "torch" and last in tensors.FACTORIES:
            wanted = arguments.keywords.get("requires_grad")
            grad = isinstance(wanted, Const) and wanted.value is True
            parts = tensors_in(arguments.positional)
            made = Tensor(
                node, operator_transfer.made_of_sizes(last, arguments), "constant", name=name, grad=grad, made_by=last
            )
            if parts and last in ("as_tensor", "normal", "bernoulli", "complex", "polar"):
                made.origin = "computed"
                made.grad = tensors.carries_graph(last, [part.grad for part in parts])
            return made
        if last == "pad_packed_sequence" and self.reading:
            made = Tensor(node, None, certain=True, grad=None, made_by=last, batch=True)
            return Container("tuple", node, [made, Tensor(node, None, made_by=last, batch=True)], exact=True)
        if path == "torch" and last in tensors.LIKE and not tensors_in([first or UNKNOWN]):
            return Tensor(node, None, "constant", name=name, made_by=last)
        if path == "torch.cuda" and last.endswith("Tensor"):
            return Tensor(
                node, operator_transfer.made_of_sizes("Tensor", arguments), "constant", name=name, made_by=last
            )
        if last == "Variable" and path.startswith("torch.autograd") and isinstance(first, Tensor):
            wanted = arguments.get(1, "requires_grad")
            grad = isinstance(wanted, Const) and wanted.value is True
            return Tensor(node, first.layout, "constant", name=name, grad=grad, made_by=last)
        if not name.startswith(_TORCH) or path not in (part[:-1] for part in _TORCH):
            return None
        if last in ("cat", "concat", "concatenate", "stack"):
            return operator_transfer.joined("stack" if last == "stack" else "cat", arguments, node, self._is_quiet())
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
                known = [part.layout if isinstance(part, Tensor) else None for part in operands]
                layout = tensors.contracted(first.value, known)
            made = derived(node, layout, last, parts, self._is_quiet())
            made.certain = True
            if last in ("meshgrid", "broadcast_tensors"):
                return Container("tuple", node, [made])
            return made
        if last == "where" and len(arguments.positional) == 3:
            parts = [part for part in arguments.positional if isinstance(part, Tensor)]
            plain = all(isinstance(part, (Tensor, Const)) for part in arguments.positional)
            layout = tensors.broadcast([part.layout for part in parts]) if plain else None
            return derived(node, layout, last, parts, self._is_quiet()) if parts else None
        if last == "unfold" and path == "torch.nn.functional":
            parts = tensors_in(arguments.everything())
            return derived(node, Layout.contiguous([Dim.symbol() for _ in range(3)]), last, parts, self._is_quiet())
        if last == "fold" and path == "torch.nn.functional":
            return derived(node, None, last, tensors_in(arguments.everything()), self._is_quiet())
        if last == "scaled_dot_product_attention":
            # Its result lies as the query does: measured with torch 2.13 on the CPU.
            layout = first.layout if isinstance(first, Tensor) else None
            return derived(node, layout, last, tensors_in(arguments.everything()), self._is_quiet())
        if last == "embedding":
            return derived(node, None, last, tensors_in(arguments.everything()), self._is_quiet())
        if last in _TRUTHS:
            drawn = [part for part in tensors_in(arguments.positional) if part.is_data]
            return Drawn(drawn[0], node) if drawn else NUMBER
        if last[:1].isupper() or last.startswith(("_", "is_")) or last in _NOT_TENSORS:
            return None
        given = [part for part in alternatives(first) if isinstance(part, Tensor)] if first is not None else []
        if not given:
            others = tensors_in(arguments.everything())
            if path == "torch.nn.functional" or others:
                made = derived(node, None, last, others, self._is_quiet())
                made.certain = True
                return made
            return None
        rest = Arguments(arguments.positional[1:], arguments.spread, arguments.keywords)
        return _shown(union([self._operator(last, part, rest, node, certain=True) for part in given]))

    def _operator(
        self, name: str, tensor: Tensor, arguments: Arguments, node: ast.expr, certain: bool = False
    ) -> Value:
        made = apply_operator(name, tensor, arguments, node, self._is_quiet())
        if name == "item" and tensor.is_data:
            return Drawn(tensor, node)
        if made is None and name.startswith(("is_", "has_")):
            return NUMBER
        if made is None:
            made = derived(node, None, name, [tensor, *tensors_in(arguments.everything())], self._is_quiet())
            made.certain = certain
        return made

    def _method(self, callee: Method, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        receiver, name = callee.receiver, callee.name
        if isinstance(receiver, Tensor):
            if name in tensors.SHOWING:
                receiver.shown = True
            if name.endswith("_") and not name.endswith("__"):
                self._write("method", node, receiver, union(arguments.everything()), None, frame)
            if name in ("keys", "values", "items", "get", "append") and not receiver.certain:
                return UNKNOWN
            if name == "requires_grad_" and isinstance(node, ast.Call):
                wanted = arguments.get(0, "requires_grad")
                receiver.grad = (
                    True if wanted is None else wanted.value is not False if isinstance(wanted, Const) else None
                )
                return receiver
            if name in _TRUTHS:
                return Drawn(receiver, node) if receiver.is_data else NUMBER
            return self._operator(name, receiver, arguments, node)
        if isinstance(receiver, Shape):
            return NUMBER if name == "numel" else UNKNOWN
        if self.reading and name in tensors.TENSOR_ONLY and type(receiver) in (Value, Opaque, Instance, Argument):
            unseen = self._unseen_receiver(receiver, node)
            if unseen is not None:
                return self._operator(name, unseen, arguments, node)
        if isinstance(receiver, SelfValue) and name == "register_buffer":
            value = arguments.get(1, "tensor")
            if value is not None:
                layout = value.layout if isinstance(value, Tensor) else None
                base = value if isinstance(value, Tensor) else None
                made = Tensor(node, layout, "buffer", kind="buffer", grad=False, base=base)
                self._named_attribute(arguments.get(0, "name"), made, "register", frame)
            return UNKNOWN
        return super()._method(callee, arguments, node, frame)

    def _unseen_receiver(self, receiver: Value, node: ast.expr) -> Tensor | None:
        if isinstance(receiver, Instance) and receiver.kind != "unresolved":
            return None
        return Tensor(node, Layout.unranked(), "unseen", certain=False, grad=None, assumed=True)

    def _unseen_tensor(self, made: Instance, arguments: Arguments) -> Value:
        given = tensors_in(arguments.everything())
        if not given:
            return made
        grad = None if any(part.grad is not False for part in given) else False
        return Tensor(
            made.node, Layout.unranked(), "unseen", name=made.name, certain=False, grad=grad, assumed=True,
            batch=tensors.batch_of(given),
        )  # fmt: skip

    def _builtin(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        first = arguments.get(0)
        taken = next((part for part in arguments.positional if isinstance(part, Drawn)), None)
        if taken is not None and name in ("int", "float", "bool", "abs", "round", "min", "max"):
            return taken
        if isinstance(first, Tensor):
            if name in ("int", "float", "bool", "any", "all") and first.is_data:
                return Drawn(first, node)
            if name == "len":
                return dimension_arguments.size(first, 0)
            if name in ("abs", "round"):
                return self._operator(name, first, NO_ARGUMENTS, node)
        if name in ("list", "tuple") and isinstance(first, Shape) and first.tensor.rank is not None:
            sizes = [dimension_arguments.size(first.tensor, dim) for dim in range(first.tensor.rank)]
            return Container(name, node, sizes, exact=True)
        if name == "int" and isinstance(first, (Size, Tensor)):
            whole = dim_of(first)
            if whole is not None:
                return Size(whole)
        return super()._builtin(name, arguments, node, frame)


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
