"""Reads the methods of a class, or the functions of a file, with tensors as values, and keeps every call and write that it meets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from modellint.source import apply, tensors
from modellint.source.apply import apply_operator, derived, dim_of, tensors_in, view_of
from modellint.source.calls import NO_ARGUMENTS, Arguments
from modellint.source.interpret import Interpreter
from modellint.source.layout import Dim, Layout
from modellint.source.nodes import walk
from modellint.source.project import External
from modellint.source.tensors import Opaque, OpaqueNumber, Shape, Size, Tensor, int_of
from modellint.source.values import (
    NUMBER,
    UNKNOWN,
    Argument,
    Const,
    Container,
    Function,
    Instance,
    Method,
    Named,
    Number,
    SelfValue,
    Union,
    Value,
    alternatives,
    union,
)
from modellint.source.world import Frame, State

if TYPE_CHECKING:
    from modellint.source.project import ClassRef, IndexedFile, Project

_TORCH = (
    "torch.",
    "torch.nn.functional.",
    "torch.Tensor.",
    "torch.special.",
    "torch.linalg.",
    "torch.fft.",
    "torch._C._nn.",
)
_QUIET = ("no_grad", "inference_mode")


class Call:
    """One reading of one call.

    ``name``: the dotted name of what is called, outside the project (``torch.nn.functional.dropout``);
    ``torch.Tensor.view`` for a method of a tensor; else empty. ``callee``: the value that is called. ``method``: the name
    behind the last dot. ``receiver``: whose method it is. ``training``: it is reached in training only; ``quiet``: under
    `no_grad`. ``building``: it is made while the object is built.
    """

    __slots__ = (
        "arguments",
        "building",
        "callee",
        "function",
        "method",
        "name",
        "node",
        "quiet",
        "receiver",
        "result",
        "statement",
        "training",
    )

    def __init__(
        self,
        node: ast.Call,
        statement: ast.stmt,
        function: ast.AST | None,
        callee: Value,
        name: str,
        method: str,
        receiver: Value | None,
        arguments: Arguments,
        result: Value,
        training: bool,
        quiet: bool,
        building: bool,
    ) -> None:
        self.node = node
        self.callee = callee
        self.statement = statement
        self.function = function
        self.name = name
        self.method = method
        self.receiver = receiver
        self.arguments = arguments
        self.result = result
        self.training = training
        self.quiet = quiet
        self.building = building

    @property
    def refused(self) -> bool:
        """Whether it is a view that raises, whichever of its tensors it is given."""
        return all(isinstance(part, Tensor) and part.refused for part in alternatives(self.result))

    def has(self, index: int, keyword: str) -> bool:
        """Whether an argument is given, or may be: behind a star it cannot be told."""
        return (
            bool(self.arguments.spread)
            or index < len(self.arguments.positional)
            or keyword in self.arguments.keywords
            or None in self.arguments.keywords
        )


class Write:
    """One reading of one statement that changes a tensor in place, or binds an attribute outside ``__init__``.

    ``how``: ``method`` (``add_``), ``item`` (``x[i] = v``), ``augmented`` (``x += v``), ``attribute`` (``self.x = v``),
    ``data`` (``x.data = v``).
    ``sharing``: the local variables that may hold memory of what is changed in place, with what they hold. ``switched``: it
    depends on a flag that the caller sets.
    """

    __slots__ = (
        "attribute",
        "function",
        "how",
        "node",
        "quiet",
        "sharing",
        "statement",
        "switched",
        "target",
        "training",
        "value",
    )

    def __init__(
        self,
        how: str,
        node: ast.AST,
        statement: ast.stmt,
        function: ast.AST | None,
        target: Value,
        value: Value,
        attribute: str | None,
        training: bool,
        quiet: bool,
        sharing: tuple[tuple[str, Tensor], ...] = (),
    ) -> None:
        self.how = how
        self.node = node
        self.statement = statement
        self.function = function
        self.target = target
        self.value = value
        self.attribute = attribute
        self.training = training
        self.quiet = quiet
        self.sharing = sharing
        self.switched = False


class Operation:
    """One reading of a binary operation or a subscript, on tensors."""

    __slots__ = ("function", "node", "operands", "result")

    def __init__(
        self,
        node: ast.expr | ast.AugAssign,
        function: ast.AST | None,
        operands: tuple[Value, ...],
        result: Value,
    ) -> None:
        self.node = node
        self.function = function
        self.operands = operands
        self.result = result


class Flow(Interpreter):
    """One reading of everything that a class's methods, or a file's functions, do with tensors."""

    readers: ClassVar[dict[type[ast.expr], Callable[[Any, Any, Frame], Value]]] = {}
    runners: ClassVar[dict[type[ast.stmt], Callable[[Any, Any, Frame], bool | None]]] = {}

    def __init__(self, project: Project, cls: ClassRef | None, file: IndexedFile) -> None:
        super().__init__(project, cls, file)
        self.calls: dict[ast.AST, list[Call]] = {}
        self.writes: dict[ast.AST, list[Write]] = {}
        self.returns: list[tuple[ast.AST, Value]] = []
        self.operations: dict[ast.expr | ast.AugAssign, list[Operation]] = {}
        self._elements: dict[Value, Instance] = {}
        self.reading = False
        self.built = 0
        """How many of the bindings stand in what builds the object."""
        self.given_away: set[int] = set()
        """What had escaped when the object was built: what methods do with a tensor later changes nothing about what it is."""
        self._training = 0
        self._quiet = 0
        self._functions: list[ast.AST] = []
        self._early_exits: list[int] = []
        self._switches = 0
        self._switches_left: list[int] = []

    def build(self) -> None:
        """Read ``__init__`` as it builds the object."""
        init = self.find_method("__init__")
        if init is not None:
            self._in_own_init = True
            self._enter(init)
            self._in_own_init = False
        self.built = len(self.bindings)

    def read_methods(self, methods: Sequence[Function]) -> None:
        """Read each method of the object that was built as its caller would enter it."""
        if not self.reading:
            self.given_away = {id(part) for part in self._held() if part.escaped}
        self.allow_escape = False
        self.reading = True
        built = self.attributes
        for function in methods:
            self.attributes = dict(built)
            self._enter(function)
        self.attributes = built

    def _held(self) -> Iterator[Container | Instance]:
        """What the attributes hold, and what that holds."""
        pending = [
            part for bindings in self.attributes.values() for one in bindings for part in alternatives(one.value)
        ]
        seen: set[int] = set()
        while pending:
            part = pending.pop()
            if isinstance(part, (Container, Instance)) and id(part) not in seen:
                seen.add(id(part))
                yield part
                if isinstance(part, Container):
                    pending.extend(inner for item in part.items for inner in alternatives(item))

    def read_functions(self, functions: Iterable[Function]) -> None:
        """Read functions that belong to no class."""
        self.allow_escape = False
        self.reading = True
        for function in functions:
            self.invoke(function, NO_ARGUMENTS, ast.Constant(None), Frame(function.file), entry=True)

    # Entering functions

    def from_caller(self, parameter: ast.arg, default: ast.expr | None, frame: Frame) -> Value:
        """What a function that is read for itself is given: a tensor, unless its annotation or default says otherwise."""
        plain = super().from_caller(parameter, default, frame)
        if not self.reading:
            return plain
        annotated = _says_tensor(parameter.annotation)
        if parameter.arg in ("self", "cls"):
            return plain
        if annotated is False or (isinstance(default, ast.Constant) and default.value is not None):
            return plain
        made = Tensor(
            parameter,
            Layout.unranked(),
            "argument",
            name=parameter.arg,
            certain=annotated is True,
            grad=True if annotated or default is None else None,
            batch=True,
        )
        made.dim = Dim.symbol()
        return made

    def global_name(self, name: str, frame: Frame) -> Value:
        """What a name means that the function does not bind itself; what would not be followed is not looked for."""
        key = frame.file.path, name, len(frame.within)
        unseen = self.reading and key not in self._named and frame.file is self.file
        if unseen and self.project.is_function_elsewhere(frame.file, name):
            self._named[key] = Named(External(f":{name}"))
        return super().global_name(name, frame)

    def invoke(
        self, function: Function, arguments: Arguments, node: ast.expr, frame: Frame, entry: bool = False
    ) -> Value:
        """Run a function; its decorators may switch gradients off."""
        quiet = any(_is_quiet(decorator) for decorator in getattr(function.node, "decorator_list", ()))
        self._quiet += quiet
        self._functions.append(function.node)
        try:
            made = super().invoke(function, arguments, node, frame, entry)
        finally:
            self._functions.pop()
            self._quiet -= quiet
        if type(made) is Instance and made.kind == "unresolved":
            return self._unseen_tensor(made, arguments)
        return made

    def _worth_reading(self, function: Function, arguments: Arguments) -> bool:
        if not self.reading:
            # What helps to build a tensor that the object keeps is followed into other files too; but what those do besides
            # is seldom about tensors, and a library's base class may do a lot.
            if tensors_in(arguments.everything()):
                return True
            abroad = function.file is not self.file
            if abroad and function.owner is not None and getattr(function.node, "name", "") != "__init__":
                return not self._abroad and self._makes_tensors(function)
            return super()._worth_reading(function, arguments) or (
                function.file is self.file and self._makes_tensors(function)
            )
        return function.file is self.file

    def _makes_tensors(self, function: Function) -> bool:
        calls = None if isinstance(function.node, ast.Lambda) else function.file.calls(function.node)
        return calls is not None and any(name.rpartition(".")[2] in tensors.FACTORIES for name in calls)

    def _unseen_tensor(self, made: Instance, arguments: Arguments) -> Value:
        given = tensors_in(arguments.everything())
        if not given:
            return made
        grad = None if any(part.grad is not False for part in given) else False
        return Tensor(
            made.node, Layout.unranked(), "unseen", name=made.name, certain=False, grad=grad, assumed=True,
            batch=tensors.batch_of(given),
        )  # fmt: skip

    # What calls give

    def apply_to(self, callee: Value, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        """The value of calling ``callee``."""
        if isinstance(callee, Instance) and callee.kind == "module":
            return apply.module_output(callee, arguments.get(0), node, self._is_quiet())
        made = super().apply_to(callee, arguments, node, frame)
        if type(made) is Instance and made.kind == "unresolved" and self.reading:
            return self._unseen_tensor(made, arguments)
        return made

    def _is_quiet(self) -> bool:
        return self._quiet > 0

    def _external(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
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
            made = Tensor(node, apply.made_of_sizes(last, arguments), "constant", name=name, grad=grad, made_by=last)
            if parts and last in ("as_tensor", "normal", "bernoulli", "complex", "polar"):
                made.origin = "computed"
                made.grad = tensors.carries_graph(last, [part.grad for part in parts])
            return made
        if path == "torch.cuda" and last.endswith("Tensor"):
            return Tensor(node, apply.made_of_sizes("Tensor", arguments), "constant", name=name, made_by=last)
        if last == "Variable" and path.startswith("torch.autograd") and isinstance(first, Tensor):
            wanted = arguments.get(1, "requires_grad")
            grad = isinstance(wanted, Const) and wanted.value is True
            return Tensor(node, first.layout, "constant", name=name, grad=grad, made_by=last)
        if not name.startswith(_TORCH) or path not in (part[:-1] for part in _TORCH):
            return None
        if last in ("cat", "concat", "concatenate", "stack"):
            return apply.joined("stack" if last == "stack" else "cat", arguments, node, self._is_quiet())
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
        if last[:1].isupper() or last.startswith("_") or last in _NOT_TENSORS:
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
        return union([self._operator(last, part, rest, node, certain=True) for part in given])

    def _operator(
        self, name: str, tensor: Tensor, arguments: Arguments, node: ast.expr, certain: bool = False
    ) -> Value:
        made = apply_operator(name, tensor, arguments, node, self._is_quiet())
        if made is None:
            made = derived(node, None, name, [tensor, *tensors_in(arguments.everything())], self._is_quiet())
            made.certain = certain
        return made

    def _method(self, callee: Method, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        receiver, name = callee.receiver, callee.name
        if isinstance(receiver, Tensor):
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

    # Expressions

    def attribute_of(self, receiver: Value, name: str, frame: Frame) -> Value:
        """The value of ``receiver.name``."""
        if isinstance(receiver, Tensor):
            if name == "shape":
                return Shape(receiver)
            if name in ("T", "mT", "H", "mH", "data", "real", "imag", "ndim"):
                return self._operator(name, receiver, NO_ARGUMENTS, ast.Constant(None))
            if name in ("dtype", "device", "requires_grad", "grad", "is_cuda", "itemsize", "layout"):
                return UNKNOWN
        return super().attribute_of(receiver, name, frame)

    def _refine(self, old: Tensor, layout: Layout, frame: Frame) -> Tensor:
        """The same tensor, its rank now known, under every local name that it has."""
        new = Tensor(
            old.node, layout, old.origin, kind=old.kind, name=old.name, certain=True, assumed=old.assumed, grad=old.grad,
            base=old.base, made_by=old.made_by, batch=old.batch,
        )  # fmt: skip
        for name, value in frame.locals.items():
            if value is old:
                frame.locals[name] = new
            elif isinstance(value, Shape) and value.tensor is old:
                frame.locals[name] = Shape(new)
        return new

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> None:
        if isinstance(value, Shape):
            starred = [at for at, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
            tensor = value.tensor
            count = len(target.elts)
            if not starred and tensor.layout is not None:
                ranked = tensor.layout.with_rank(count)
                if ranked is not None:
                    tensor = self._refine(tensor, ranked, frame) if tensor.rank is None else tensor
            for at, element in enumerate(target.elts):
                if isinstance(element, ast.Starred):
                    self.bind(element.value, Container("list", element, [NUMBER]), frame)
                else:
                    behind = bool(starred) and at > starred[0]
                    self.bind(element, apply.size(tensor, at - count if behind else at), frame)
            return
        if type(value) is Union and not any(isinstance(element, ast.Starred) for element in target.elts):
            joined = self._joined_shape(value, len(target.elts), frame)
            if joined is not None:
                for at, element in enumerate(target.elts):
                    self.bind(element, apply.size(joined, at), frame)
                return
        if isinstance(value, Tensor):
            for element in target.elts:
                inner = element.value if isinstance(element, ast.Starred) else element
                self.bind(inner, self._element(value, element), frame)
            return
        super()._unpack(target, value, frame)

    def bind(
        self, target: ast.expr, value: Value, frame: Frame, expression: ast.expr | None = None, form: str = "assign"
    ) -> None:
        """Assign ``value`` to a target. A number that is not known is told from others by the name that it gets."""
        if self.reading and isinstance(target, ast.Name):
            value = _told_apart(value)
        super().bind(target, value, frame, expression, form)

    def _joined_shape(self, value: Union, count: int, frame: Frame) -> Tensor | None:
        """One tensor in the place of several that are contiguous, of whose shape ``count`` sizes are taken, under all its names."""
        parts = [part.tensor for part in value.values if isinstance(part, Shape)]
        layouts = [part.layout.with_rank(count) for part in parts if part.layout is not None]
        ranked = [layout for layout in layouts if layout is not None and layout.is_contiguous]
        if len(ranked) != len(value.values) or any(part.kind != "tensor" for part in parts):
            return None
        rows = zip(*([axis.size for axis in layout.axes] for layout in ranked), strict=True)
        sizes = [row[0] if len(set(row)) == 1 else Dim.symbol() for row in rows]
        made = derived(parts[0].node, Layout.contiguous(sizes), parts[0].made_by, parts, self._is_quiet())
        made.certain = True
        wanted = {id(part) for part in parts}
        for name, held in frame.locals.items():
            if {id(part) for part in alternatives(held)} == wanted:
                frame.locals[name] = made
        return made

    def _element(self, tensor: Tensor, node: ast.AST) -> Tensor:
        """An element of a tensor, or of a container of tensors that was taken for one."""
        layout = tensor.layout.selected(0) if tensor.layout is not None else None
        if not tensor.certain:
            layout = Layout.unranked() if tensor.layout is not None and tensor.rank is None else layout
        made = view_of(node, layout, "select", tensor).unbatched()
        made.dim = tensor.dim
        return made

    def element_of(self, value: Value) -> Value:
        """What iterating over a value gives."""
        if isinstance(value, Tensor):
            return self._element(value, value.node or ast.Constant(None))
        if isinstance(value, Shape):
            return NUMBER
        if type(value) is Instance and value.kind == "unresolved" and self.reading:
            return self._elements.setdefault(value, Instance("unresolved", value.node, value.name))
        return super().element_of(value)

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        receiver = self.value(node.value, frame)
        if not any(isinstance(part, (Tensor, Shape)) for part in alternatives(receiver)):
            return super()._subscript(node, frame)
        made = union([self._subscripted(part, node, frame) for part in alternatives(receiver)])
        if frame.file is self.file:
            self._operate(node, (receiver,), made)
        return made

    def _operate(self, node: ast.expr | ast.AugAssign, operands: tuple[Value, ...], made: Value) -> None:
        if self.reading:
            function = self._functions[-1] if self._functions else None
            self.operations.setdefault(node, []).append(Operation(node, function, operands, made))

    def _subscripted(self, receiver: Value, node: ast.Subscript, frame: Frame) -> Value:
        if isinstance(receiver, Shape):
            return self._of_shape(receiver, node.slice, frame)
        if not isinstance(receiver, Tensor):
            if isinstance(node.slice, ast.Slice):
                return self._sliced(receiver, node)
            return self._indexed(receiver, self.value(node.slice, frame))
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        layout: Layout | None = receiver.layout
        at = 0
        for index, part in enumerate(parts):
            if isinstance(part, ast.Slice):
                layout, at = self._slice(layout, at, part, frame), at + 1
                continue
            value = self.value(part, frame)
            if isinstance(value, Const) and value.value is None:
                layout, at = layout and layout.unsqueezed(at), at + 1
            elif isinstance(value, Const) and value.value is ...:
                at = (
                    -(len(parts) - index - 1)
                    if layout is None or layout.rank is None
                    else layout.rank
                    - sum(not (isinstance(p, ast.Constant) and p.value is None) for p in parts[index + 1 :])
                )
                if layout is not None and layout.rank is None:
                    layout = None
            elif _is_index(value):
                layout = layout and layout.selected(at)
            else:
                return derived(node, None, "index", [receiver, *tensors_in([value])], self._is_quiet())
        made = view_of(node, layout, "index", receiver)
        if parts and not isinstance(parts[0], ast.Slice) and _is_index(self.value(parts[0], frame)):
            made.unbatched()
        if not receiver.certain and len(parts) == 1 and not isinstance(parts[0], ast.Slice):
            return self._element(receiver, node)
        return made

    def _slice(self, layout: Layout | None, at: int, part: ast.Slice, frame: Frame) -> Layout | None:
        lower, upper, step = (
            self.value(bound, frame) if bound is not None else None for bound in (part.lower, part.upper, part.step)
        )
        if layout is None or (lower is None and upper is None and step is None):
            found = layout.position(at) if layout is not None else None
            return found[0] if found is not None else None
        if step is not None:
            stride = dim_of(step)
            return layout.narrowed(at, None, stride) if stride is not None else None
        start, stop = int_of(lower) if lower is not None else 0, int_of(upper)
        if start is not None and stop is not None and 0 <= start < stop:
            return layout.narrowed(at, Dim.of(stop - start))
        # Whatever is left may have size 1: then its neighbours nest.
        return layout.narrowed(at) if at == 0 else tensors.forgotten(layout.narrowed(at))

    def _of_shape(self, shape: Shape, index: ast.expr, frame: Frame) -> Value:
        tensor = shape.tensor
        if isinstance(index, ast.Slice):
            lower = int_of(self.value(index.lower, frame)) if index.lower is not None else 0
            upper = int_of(self.value(index.upper, frame)) if index.upper is not None else None
            rank = tensor.rank
            if index.step is not None or lower is None or (index.upper is not None and upper is None):
                return UNKNOWN
            if rank is not None:
                dims = range(rank)[lower:upper]
            elif upper is not None and lower >= 0 and upper > 0:
                dims = range(lower, upper)
            elif upper is None and lower < 0:
                dims = range(lower, 0)
            else:
                return UNKNOWN
            return Container("tuple", index, [apply.size(tensor, dim) for dim in dims], exact=True)
        dim = int_of(self.value(index, frame))
        return apply.size(tensor, dim) if dim is not None else NUMBER

    def combine(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
        """The value of a binary operation."""
        lefts, rights = alternatives(left), alternatives(right)
        if any(isinstance(part, Tensor) for part in (*lefts, *rights)):
            if len(lefts) * len(rights) > 16:
                return derived(node, None, "add", tensors_in([left, right]), self._is_quiet())
            made = union([self._computed(node, one, two) for one in lefts for two in rights])
            self._operate(node, (left, right), made)
            return made
        boxes = all(isinstance(part, Container) for part in (*lefts, *rights))
        if isinstance(node.op, ast.Add) and boxes and len(lefts) * len(rights) <= 16:
            return union([_appended(node, one, two) for one in lefts for two in rights])
        one, two = dim_of(left), dim_of(right)
        unseen = any(type(part) in (Instance, Opaque) for part in (left, right))
        if unseen and not isinstance(node.op, ast.FloorDiv) and not any(type(part) is Size for part in (left, right)):
            # Whatever it is, it need not be a number.
            one = None
        if one is not None and two is not None:
            if isinstance(node.op, ast.Mult):
                return Size(one * two)
            if isinstance(node.op, (ast.FloorDiv, ast.Div)) and two.factor:
                return Size(one / two)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            first, second = int_of(left), int_of(right)
            if first is not None and second is not None:
                return Const(first + second if isinstance(node.op, ast.Add) else first - second)
        if any(isinstance(part, Size) for part in (left, right)) and not any(
            isinstance(part, Container) for part in (*lefts, *rights)
        ):
            return NUMBER
        return super().combine(node, left, right)

    def _computed(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
        parts = [part for part in (left, right) if isinstance(part, Tensor)]
        if not parts:
            return UNKNOWN
        if isinstance(node.op, ast.MatMult):
            both = isinstance(left, Tensor) and isinstance(right, Tensor)
            layout = tensors.multiplied(parts[0].layout, parts[1].layout) if both else None
            return derived(node, layout, "matmul", parts, self._is_quiet())
        others = [part for part in (left, right) if not isinstance(part, Tensor)]
        scalar = all(isinstance(part, (Const, Number, Size, Argument, Method)) for part in others)
        layout = tensors.broadcast([part.layout for part in parts]) if scalar else None
        if isinstance(node, ast.AugAssign) and isinstance(left, Tensor) and left.certain:
            # It is written where the left one is.
            layout = left.layout
        made = derived(node, layout, "add", parts, self._is_quiet())
        one, two = dim_of(left), dim_of(right)
        if one is not None and two is not None:
            if isinstance(node.op, ast.Mult):
                made.dim = one * two
            elif isinstance(node.op, (ast.FloorDiv, ast.Div)) and two.factor:
                made.dim = one / two
        return made

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        parts = [self.value(node.left, frame), *(self.value(part, frame) for part in node.comparators)]
        found = tensors_in(parts)
        if found and not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            layout = tensors.broadcast([part.layout for part in found])
            return derived(node, layout, "eq", found, self._is_quiet())
        return NUMBER

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.value(node.operand, frame)
        if isinstance(value, Tensor) and not isinstance(node.op, ast.Not):
            return derived(node, tensors.like(value.layout), "neg", [value], self._is_quiet())
        if isinstance(node.op, ast.USub) and isinstance(value, Const) and type(value.value) in (int, float):
            return Const(-value.value)  # type: ignore[operator]
        return NUMBER

    def _builtin(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        first = arguments.get(0)
        if isinstance(first, Tensor):
            if name == "len":
                return apply.size(first, 0)
            if name in ("abs", "round"):
                return self._operator(name, first, NO_ARGUMENTS, node)
        if name in ("list", "tuple") and isinstance(first, Shape) and first.tensor.rank is not None:
            sizes = [apply.size(first.tensor, dim) for dim in range(first.tensor.rank)]
            return Container(name, node, sizes, exact=True)
        if name == "int" and isinstance(first, (Size, Tensor)):
            whole = dim_of(first)
            if whole is not None:
                return Size(whole)
        return super()._builtin(name, arguments, node, frame)

    # Writes

    def _write(self, how: str, node: ast.AST, target: Value, value: Value, attribute: str | None, frame: Frame) -> None:
        if self.reading and frame.file is self.file and frame.statement is not None:
            function = self._functions[-1] if self._functions else None
            state = self._training > 0, self._is_quiet()
            sharing = _sharing(target, frame) if how != "attribute" else ()
            write = Write(how, node, frame.statement, function, target, value, attribute, *state, sharing)
            write.switched = self._switches > 0
            self.writes.setdefault(node, []).append(write)

    def _bind_attribute(
        self, receiver: Value, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None
    ) -> None:
        changes = name == "data" and any(isinstance(part, Tensor) for part in alternatives(receiver))
        if changes and frame.statement is not None:
            self._write("data", frame.statement, receiver, value, None, frame)
        super()._bind_attribute(receiver, name, value, form, frame, expression)

    def _bind_item(self, target: ast.Subscript, value: Value, frame: Frame) -> None:
        receiver = self.value(target.value, frame)
        if any(isinstance(part, Tensor) for part in alternatives(receiver)):
            self._write("item", target, receiver, value, None, frame)
            return
        super()._bind_item(target, value, frame)

    def _augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        current = self.value(node.target, frame)
        if any(isinstance(part, Tensor) for part in alternatives(current)):
            added = self.value(node.value, frame)
            self._write("augmented", node, current, added, None, frame)
            if isinstance(node.target, ast.Attribute) and isinstance(self.value(node.target.value, frame), SelfValue):
                return
            if not isinstance(node.target, ast.Subscript):
                self.bind(node.target, self.combine(node, current, added), frame, node.value, "augmented")
            return
        super()._augmented(node, frame)

    def set_attribute(
        self, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None = None
    ) -> None:
        """Bind an attribute of ``self``: a registered buffer stays one when a tensor is assigned to it."""
        if self.reading and frame.statement is not None:
            before = self.attributes.get(name, ())
            old = union([binding.value for binding in before]) if before else UNKNOWN
            self._write("attribute", frame.statement, old, value, name, frame)
            if any(isinstance(part, Tensor) and part.kind == "buffer" for part in alternatives(old)):
                return
        super().set_attribute(name, value, form, frame, expression)

    # Calls

    def called(self, node: ast.Call, callee: Value, arguments: Arguments, made: Value, frame: Frame) -> None:
        """Keep a call of the file that is read."""
        if frame.file is not self.file or frame.statement is None:
            return
        for part in alternatives(callee):
            name, method = "", ""
            receiver: Value | None = None
            match part:
                case Named(symbol=External(name=dotted)):
                    name, method = dotted, dotted.rpartition(".")[2]
                case Method(receiver=Tensor() as owner, name=attribute):
                    name, method, receiver = "torch.Tensor." + attribute, attribute, owner
                case Method(receiver=owner, name=attribute):
                    method, receiver = attribute, owner
            function = self._functions[-1] if self._functions else None
            state = self._training > 0, self._is_quiet(), not self.reading
            self.calls.setdefault(node, []).append(
                Call(node, frame.statement, function, callee, name, method, receiver, arguments, made, *state)
            )

    # Control flow

    def _if(self, node: ast.If, frame: Frame) -> bool:
        self.value(node.test, frame)
        decided = self._decided(node.test, frame)
        guard = self._guard(node.test, frame)
        switch = guard is None and self._is_switch(node.test, frame)
        before = self._state(frame)
        after: list[State] = []
        # What runs in evaluation only is meant to.
        self._switches += switch or guard is False
        self._training += guard is True
        if decided is not False and self._block(node.body, frame):
            after.append((frame.locals, self.attributes))
        self._training -= guard is True
        self._switches += (guard is True) - (guard is False)
        leaves_early = not after and decided is not False
        self._restore(before, frame)
        self._training += guard is False
        if decided is not True and self._block(node.orelse, frame):
            after.append((frame.locals, self.attributes))
        self._training -= guard is False
        self._switches -= switch or guard is True
        if switch and leaves_early and not node.orelse:
            self._switches_left[-1] += 1
            self._switches += 1
        if guard is False and leaves_early and not node.orelse:
            # `if not self.training: return x`: what follows runs in training only.
            self._early_exits[-1] += 1
            self._training += 1
        return self._join(after, frame)

    def _decided(self, test: ast.expr, frame: Frame) -> bool | None:
        """What a condition certainly is: a local variable that holds a tensor which the code itself makes is not None."""
        match test:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
            ) if self.reading:
                held = frame.locals.get(name)
                if held is not None and all(map(_is_made, alternatives(held))):
                    return isinstance(op, ast.IsNot)
        return None

    def _block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        self._early_exits.append(0)
        self._switches_left.append(0)
        try:
            return super()._block(statements, frame)
        finally:
            self._training -= self._early_exits.pop()
            self._switches -= self._switches_left.pop()

    def _is_switch(self, test: ast.expr, frame: Frame) -> bool:
        """Whether a condition asks a flag, or for a mode by its name: what runs then, only the caller knows."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._is_switch(operand, frame)
            case ast.BoolOp(values=values):
                return any(self._is_switch(value, frame) for value in values)
            case ast.Compare(comparators=[ast.Constant(value=wanted)]):
                return isinstance(wanted, (str, bool))
            case ast.Name():
                value = self.value(test, frame)
                return not all(isinstance(part, (Tensor, Const, Number)) for part in alternatives(value))
            case ast.Attribute(value=ast.Name()):
                parts = (*alternatives(self.value(test, frame)), *alternatives(self.value(test.value, frame)))
                return not any(isinstance(part, Tensor) for part in parts)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"))):
                return True
        return False

    def _conditional(self, node: ast.IfExp, frame: Frame) -> Value:
        self.value(node.test, frame)
        guard = self._guard(node.test, frame)
        self._training += guard is True
        body = self.value(node.body, frame)
        self._training += (guard is False) - (guard is True)
        other = self.value(node.orelse, frame)
        self._training -= guard is False
        return union((body, other))

    def _boolean(self, node: ast.BoolOp, frame: Frame) -> Value:
        found: list[Value] = []
        guarded = 0
        for part in node.values:
            found.append(self.value(part, frame))
            if isinstance(node.op, ast.And) and self._guard(part, frame) is True:
                guarded += 1
                self._training += 1
        self._training -= guarded
        return union(found)

    def _guard(self, test: ast.expr, frame: Frame) -> bool | None:
        """True where a condition holds in training only, False where it holds in evaluation only."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._guard(operand, frame)
                return None if inner is None else not inner
            case ast.BoolOp(op=ast.And(), values=values):
                found = {self._guard(value, frame) for value in values}
                return True if True in found else False if False in found else None
            case ast.BoolOp(op=ast.Or(), values=values):
                found = {self._guard(value, frame) for value in values}
                return next(iter(found)) if len(found) == 1 else None
            case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool() as wanted)]):
                inner = self._guard(left, frame)
                return inner if wanted or inner is None else not inner
            case ast.Attribute(attr=attribute):
                return True if attribute.lstrip("_") in ("training", "is_training", "is_train") else None
            case ast.Name(id=name):
                if name in ("training", "is_training", "train", "is_train"):
                    return True
                value = frame.locals.get(name)
                return True if isinstance(value, Method) and value.name == "training" else None
            case ast.Call(func=ast.Attribute(attr="is_grad_enabled")):
                return True
        return None

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
        quiet = sum(_is_quiet(item.context_expr) for item in node.items)
        self._quiet += quiet
        try:
            return super()._with(node, frame)
        finally:
            self._quiet -= quiet

    def _return(self, node: ast.Return, frame: Frame) -> bool:
        reached = super()._return(node, frame)
        if self.reading and len(self._functions) == 1 and frame.returned:
            self.returns.append((node, frame.returned[-1]))
        return reached


_TENSORS = frozenset(
    {"Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "BoolTensor"}
    | {"ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor"}
)
"""What torch calls its tensors: others' tensors, such as torch_complex's, have methods of their own."""
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


def _sharing(target: Value, frame: Frame) -> tuple[tuple[str, Tensor], ...]:
    """The local variables that hold memory of a tensor, and what they hold."""
    roots = {part.root for part in alternatives(target) if isinstance(part, Tensor)}
    return tuple(
        (name, part)
        for name, value in frame.locals.items()
        for part in alternatives(value)
        if isinstance(part, Tensor) and part.root in roots
    )


def _told_apart(value: Value) -> Value:
    if value is UNKNOWN:
        return Opaque()
    numbers = [type(part) is Number or isinstance(part, (Size, OpaqueNumber)) or int_of(part) is not None
               for part in alternatives(value)]  # fmt: skip
    if value is NUMBER or (type(value) is Union and all(numbers)):
        return OpaqueNumber()
    return value


def _appended(node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    if not isinstance(left, Container) or not isinstance(right, Container):
        return UNKNOWN
    exact = left.exact and right.exact and left.kind == right.kind
    return Container(left.kind, node, [*left.items, *right.items], exact)


def _is_index(value: Value) -> bool:
    """Whether a subscript is one number."""
    return isinstance(value, (Number, Size)) or (
        isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool)
    )


def _is_quiet(node: ast.expr) -> bool:
    """Whether an expression is `torch.no_grad()` or the like."""
    if isinstance(node, ast.Call):
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == "set_grad_enabled":
            return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value is False
        node = node.func
    return getattr(node, "attr", getattr(node, "id", "")) in _QUIET


def _is_made(value: Value) -> bool:
    """Whether a value certainly is a tensor, whatever the caller gives."""
    return isinstance(value, Tensor) and value.certain and value.origin not in ("argument", "unseen")


def _says_tensor(annotation: ast.expr | None) -> bool | None:
    """Whether an annotation says that a parameter is a tensor; None without one."""
    if annotation is None:
        return None
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return None
    names = set()
    for node in walk(annotation):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    names -= {"torch", "typing", "t", "th", "Optional", "Union", "None"}
    return not names.isdisjoint(_TENSORS) and all(name.endswith("Tensor") for name in names)


Flow.readers = {
    **Interpreter.readers,
    ast.Subscript: Flow._subscript,
    ast.Compare: Flow._compare,
    ast.UnaryOp: Flow._unary,
    ast.IfExp: Flow._conditional,
    ast.BoolOp: Flow._boolean,
}
Flow.runners = {
    **Interpreter.runners,
    ast.AugAssign: Flow._augmented,
    ast.If: Flow._if,
    ast.Return: Flow._return,
    ast.With: Flow._with,
    ast.AsyncWith: Flow._with,
}
