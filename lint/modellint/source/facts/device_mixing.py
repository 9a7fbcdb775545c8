"""Whether what an object keeps meets, in a function, the tensors of a computation: an operation on both needs them on one device."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Instance, alternatives
from modellint.source.project.annotations import says_tensor
from modellint.source.project.symbols import External, dotted_name
from modellint.source.syntax.ast_walk import walk

if TYPE_CHECKING:
    from modellint.source.facts.function_facts import Code
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

    Def: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
    Asks: TypeAlias = Callable[[ast.AST], bool]

_ABOUT = frozenset({"shape", "size", "ndim", "dim", "numel", "dtype", "device", "requires_grad", "is_cuda", "itemsize"})
_TO_PYTHON = frozenset({"item", "tolist", "numpy", "cpu", "stride", "data_ptr", "get_device", "is_contiguous"})
_MOVING = frozenset({"to", "cuda", "type_as", "type"})
_ACROSS = frozenset(
    {"copy_", "to", "type_as", "type", "expand_as", "view_as", "reshape_as", "new_tensor", "set_", "load_state_dict"}
    | {"append", "register_buffer", "as_tensor", "tensor", "save", "is_tensor", "result_type", "broadcast_shapes"}
)
"""What may be given tensors of two devices."""
_OF_TENSORS_WORDS = (
    "argmax bmm chunk clamp clone contiguous cos cumsum detach device dim exp expand flatten float gather half index_select "
    "is_cuda log long masked_fill matmul mean mm ndim new_full new_ones new_zeros numel permute pow repeat requires_grad "
    "reshape shape sin size softmax sqrt squeeze sum to transpose type_as unbind unsqueeze view"
)
_OF_TENSORS = frozenset(_OF_TENSORS_WORDS.split())
"""What is asked of tensors, and of an argument without an annotation makes it one."""
_PLAIN = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_DEEP = 3


def meets_tensors(code: Code, attribute: str) -> bool:
    """Whether an operation takes an attribute of a module and a tensor of the computation, in a method that others call.

    The functions of the file that read the attribute of what certainly is an object of the class count, too.
    """
    if code.ref is None:
        return False
    methods = {method.node.name: method.node for method in code.methods if not isinstance(method.node, ast.Lambda)}
    top = code.top_functions()

    def kept(node: ast.AST) -> bool:
        return _own_attribute(node) == attribute

    def beside(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            made = alternatives(code.attribute(_own_attribute(node.func)))
            return all(isinstance(m, Instance) and m.kind == "module" and not m.stateless for m in made)
        return _is_registered(code, _own_attribute(node))

    def called(call: ast.Call) -> Def | None:
        match call.func:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                return methods.get(name)
            case ast.Name(id=name):
                return top.get(name)
        return None

    inside = Meeting(code.project, code.file, kept, beside, called)
    for function in code.readers(attribute):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and inside.happens_in(function):
            return True
    own = set(methods.values())
    return any(
        _meets_outside(code, function, reads)
        for function, reads in _instances_read(code.file.tree, code.ref.node.name, attribute)
        if function not in own and not code.is_aside(function)
    )


def _meets_outside(code: Code, function: Def, reads: list[ast.Attribute]) -> bool:
    """Whether it happens where a function of the file reads the attribute of an object of the class."""
    places = {id(node) for node in reads}
    owners = {ast.dump(node.value) for node in reads}

    def beside(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and _is_registered(code, node.attr) and ast.dump(node.value) in owners

    meeting = Meeting(code.project, code.file, lambda node: id(node) in places, beside, lambda call: None)
    return meeting.happens_in(function)


def _own_attribute(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def _is_registered(code: Code, attribute: str) -> bool:
    return all(isinstance(part, Tensor) and part.registered for part in alternatives(code.attribute(attribute)))


class Meeting:
    """The question for functions of one file.

    ``kept`` tells the places where what is kept is read, ``beside`` tensors that belong to a module: its parameters, its
    buffers and what its modules give. ``called`` finds the function of the file that a call runs.
    """

    def __init__(
        self, project: Project, file: IndexedFile, kept: Asks, beside: Asks, called: Callable[[ast.Call], Def | None]
    ) -> None:
        self.project = project
        self.file = file
        self.kept = kept
        self.beside = beside
        self.called = called

    def happens_in(self, function: Def) -> bool:
        """Whether one operation of a function, or of one that it hands both to, takes what is kept and a tensor of the computation."""
        return self._happens(function, frozenset(), frozenset(self._given(function)), _DEEP)

    def _happens(self, function: Def, kept: frozenset[str], given: frozenset[str], depth: int) -> bool:
        return _Reading(self, function, kept, given, depth).meets()

    def _given(self, function: Def) -> Iterator[str]:
        """The arguments of a function that are tensors: by annotation, or by what is asked of them."""
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(every) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(every, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        shown = _shown_by_use(self, function) - {"self", "cls"}
        for parameter, default in pairs:
            if isinstance(default, ast.Constant) and default.value is not None:
                continue
            said = says_tensor(parameter.annotation)
            if said or (said is None and parameter.arg in shown):
                yield parameter.arg

    def torch(self, call: ast.Call) -> str:
        """The name of the function of torch or einops that is called; else empty."""
        dotted = dotted_name(call.func)
        symbol = self.project.resolve(self.file, dotted) if dotted is not None else None
        name = symbol.name if isinstance(symbol, External) else ""
        return name if name.partition(".")[0] in ("torch", "einops") else ""


class _Reading:
    """One function, with the names under which it knows what is kept and the tensors of the computation."""

    def __init__(
        self, meeting: Meeting, function: Def, kept: frozenset[str], given: frozenset[str], depth: int
    ) -> None:
        self.meeting = meeting
        self.nodes = walk(function)
        self.depth = depth
        self.kept_names = set(kept)
        self.given_names = set(given)
        moved: set[str] = set()
        for _ in range(_DEEP):
            before = len(self.kept_names), len(self.given_names)
            for names, value in _bound(self.nodes):
                if self.is_kept(value):
                    self.kept_names |= names
                elif self._moves(value):
                    moved |= names
                if self.is_given(value):
                    self.given_names |= names
            if before == (len(self.kept_names), len(self.given_names)):
                break
        # `mean = mean.to(x.device)`: whoever wrote it knows where the tensor is.
        self.kept_names -= moved

    def meets(self) -> bool:
        return any(map(self._joins, self.nodes)) and not self._moves_for_good()

    def _moves_for_good(self) -> bool:
        """Whether the function binds what is kept anew, moved."""
        return any(
            isinstance(node, ast.Assign) and any(map(self.meeting.kept, node.targets)) and self._moves(node.value)
            for node in self.nodes
        )

    def is_kept(self, node: ast.AST) -> bool:
        return self._carries(node, self.kept_names, self.meeting.kept, True)

    def is_given(self, node: ast.AST) -> bool:
        return self._carries(node, self.given_names, self.meeting.beside, False)

    def _moves(self, value: ast.expr) -> bool:
        """Whether an expression moves what is kept to another device."""
        return any(
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in _MOVING
            and not _only_casts(part)
            and self.is_kept(part.func.value)
            for part in walk(value)
        )

    def _carries(self, node: ast.AST, names: set[str], own: Asks, moves: bool) -> bool:
        """Whether an expression is a tensor made of one of ``names`` or ``own``, where that is; ``moves``: moving it makes it another."""
        if own(node):
            return True

        def carries(part: ast.AST) -> bool:
            return self._carries(part, names, own, moves)

        match node:
            case ast.Name(id=name):
                return name in names
            case ast.Attribute(value=value, attr=attribute):
                return attribute not in _ABOUT and carries(value)
            case ast.Subscript(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                return carries(value)
            case ast.UnaryOp(operand=operand):
                return not isinstance(node.op, ast.Not) and carries(operand)
            case ast.BinOp(left=left, right=right):
                return carries(left) or carries(right)
            case ast.Compare(left=left, ops=[only], comparators=[right]):
                return not isinstance(only, _PLAIN) and (carries(left) or carries(right))
            case ast.IfExp(body=body, orelse=orelse):
                return carries(body) or carries(orelse)
            case ast.Call():
                return self._call_carries(node, carries, moves)
        return False

    def _call_carries(self, call: ast.Call, carries: Asks, moves: bool) -> bool:
        for keyword in call.keywords:
            if keyword.arg == "device":
                return isinstance(keyword.value, ast.Attribute) and carries(keyword.value.value)
        name = self.meeting.torch(call)
        if name:
            return name.rpartition(".")[2] not in _ABOUT and any(map(carries, _handed(call)))
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _ABOUT | _TO_PYTHON:
            method = call.func.attr
            return carries(call.func.value) and not (moves and method in _MOVING and not _only_casts(call))
        return False

    def _joins(self, node: ast.AST) -> bool:
        match node:
            case ast.BinOp(left=left, right=right):
                return self._both([left], [right])
            case ast.Compare(left=left, ops=operators, comparators=others):
                return not isinstance(operators[0], _PLAIN) and self._both([left], others)
            case ast.AugAssign(target=target, value=value):
                return self._both([target], [value])
            case ast.Subscript(value=value, slice=index):
                # The other way round is legal: an index may stay on the CPU.
                indices = index.elts if isinstance(index, ast.Tuple) else [index]
                return self.is_kept(value) and any(map(self.is_given, indices))
            case ast.Call():
                return self._call_joins(node)
        return False

    def _both(self, first: Iterable[ast.AST], second: Iterable[ast.AST]) -> bool:
        first, second = list(first), list(second)
        if any(map(self.is_kept, first)):
            return any(map(self.is_given, second))
        return any(map(self.is_kept, second)) and any(map(self.is_given, first))

    def _call_joins(self, call: ast.Call) -> bool:
        handed = list(_handed(call))
        name = self.meeting.torch(call)
        if name:
            kept = [part for part in handed if self.is_kept(part)]
            found = any(self.is_given(part) for part in handed if part not in kept)
            return name.rpartition(".")[2] not in _ACROSS and bool(kept) and found
        function = self.meeting.called(call)
        if function is not None:
            return self._continues(call, function)
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _ACROSS:
            return self._both([call.func.value], handed)
        return False

    def _continues(self, call: ast.Call, function: Def) -> bool:
        """Whether a function of the file that is called brings together what it is handed."""
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
            del names[0]
        pairs = [*zip(names, call.args), *((k.arg, k.value) for k in call.keywords if k.arg is not None)]  # noqa: B905
        kept = frozenset(name for name, value in pairs if self.is_kept(value))
        given = frozenset(name for name, value in pairs if self.is_given(value))
        if not kept or not given or not self.depth:
            return False
        return self.meeting._happens(function, kept, given, self.depth - 1)


def _instances_read(tree: ast.Module, cls: str, attribute: str) -> Iterator[tuple[Def, list[ast.Attribute]]]:
    """The functions of a file that read an attribute of what certainly is an object of a class of the file, with the places.

    That is an argument with the class for its annotation, or an attribute of `self` that is bound to calls of the class only.
    """
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            parts = _bound_to(statement, cls)
            functions = [node for node in statement.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        else:
            parts = set()
            functions = [statement] if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        for function in functions:
            given = {a.arg for a in (*function.args.args, *function.args.kwonlyargs) if _names_only(a.annotation, cls)}
            found = []
            for node in walk(function):
                match node:
                    case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr == attribute and name in given:
                        found.append(node)
                    case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=part), attr=attr) if (
                        attr == attribute and part in parts
                    ):
                        found.append(node)
                    case _:
                        pass
            if found:
                yield function, found


def _bound_to(cls: ast.ClassDef, wanted: str) -> set[str]:
    """The attributes of `self` that a class binds to new objects of another class, and to nothing else."""
    bound: dict[str, bool] = {}
    for node in walk(cls):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                match value:
                    case ast.Call(func=ast.Name(id=made)) if made == wanted:
                        bound.setdefault(name, True)
                    case _:
                        bound[name] = False
            case _:
                pass
    return {name for name, only in bound.items() if only}


def _names_only(annotation: ast.expr | None, cls: str) -> bool:
    match annotation:
        case ast.Name(id=name) | ast.Constant(value=name):
            return name == cls
    return False


def _shown_by_use(meeting: Meeting, function: Def) -> set[str]:
    found: set[str] = set()
    for node in walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in _OF_TENSORS:
                found.add(name)
            case ast.BinOp(op=ast.MatMult()):
                found |= {part.id for part in (node.left, node.right) if isinstance(part, ast.Name)}
            case ast.Call(args=[ast.Name(id=name), *_]) if meeting.beside(node):
                found.add(name)
            case ast.Call(args=[ast.Name(id=name), *_]) if meeting.torch(node).startswith("torch.nn.functional."):
                found.add(name)
            case _:
                pass
    return found


def _handed(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call, those in a list or tuple one by one."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, (ast.List, ast.Tuple)):
            yield from value.elts
        else:
            yield value


def _only_casts(call: ast.Call) -> bool:
    """Whether `.to(…)` is given types only."""
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg not in ("copy", "non_blocking"))]
    return bool(given) and all(
        isinstance(value, ast.Attribute)
        and (value.attr == "dtype" or (isinstance(value.value, ast.Name) and value.value.id == "torch"))
        for value in given
    )


def _bound(nodes: list[ast.AST]) -> Iterator[tuple[set[str], ast.expr]]:
    """The local names that statements bind, and what to."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield from _pairs(target, value)
            case ast.NamedExpr(target=target, value=value) | ast.For(target=target, iter=value):
                yield from _pairs(target, value)
            case ast.comprehension(target=target, iter=value):
                yield from _pairs(target, value)
            case _:
                pass


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[set[str], ast.expr]]:
    match target, value:
        case ast.Name(id=name), _:
            yield {name}, value
        case ((ast.Tuple(elts=names) | ast.List(elts=names)), (ast.Tuple(elts=values) | ast.List(elts=values))) if len(
            names
        ) == len(values):
            for one, other in zip(names, values, strict=True):
                yield from _pairs(one, other)
        case ((ast.Tuple(elts=names) | ast.List(elts=names)), _):
            yield {name.id for name in names if isinstance(name, ast.Name)}, value
        case _:
            pass
