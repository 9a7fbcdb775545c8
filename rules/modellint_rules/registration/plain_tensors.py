"""Plain tensors, which a module keeps as attributes without registering them: what the rules about buffers share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import (
    Argument,
    Const,
    Container,
    Value,
    alternatives,
    called_name,
    meets_tensors,
    mentioned_in,
    of_kind,
    once,
    parents_in,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Binding, Code, Tensor, Write

MOVES = frozenset({"to", "cuda", "cpu", "float", "half", "double", "type", "type_as", "bfloat16", "contiguous"})
"""Methods that move or cast a tensor and make no new content."""


class Kept(NamedTuple):
    """An attribute that certainly holds plain tensors: the first binding that stands, and the tensors."""

    name: str
    binding: Binding
    tensors: tuple[Tensor, ...]
    container: Container | None


def kept_tensors(code: Code) -> Iterator[Kept]:
    """The attributes of a module that hold plain tensors, or plain containers of nothing else, and take part in the computation."""
    for name, bindings in code.attributes.items():
        values = [part for binding in bindings if not _registers(binding) for part in alternatives(binding.value)]
        plain = _plain(code, values) or (((), None) if _are_moved(code, name, values) else None)
        if plain is None or not _takes_part(code, name):
            continue
        tensors, container = plain
        if container is not None and not _only_read(code, name):
            continue
        # `self.x = torch.ones(3)` and `if gpu: self.x = self.x.cuda()`: the first is where it should have been a buffer.
        built = [b for b in code.built_of(name) if b.file is code.file and (_is_kept(code, b) or not tensors)]
        if built:
            yield Kept(name, min(built, key=lambda b: b.statement.lineno), tensors, container)


def _are_moved(code: Code, name: str, values: list[Value]) -> bool:
    """Whether what `__init__` is given for a tensor is none of a parameter: a method puts it, moved, in its own place."""
    initial = [value for value in values if not (isinstance(value, Const) and value.value is None)]
    names = [value.name for value in initial if isinstance(value, Argument) and value.is_said_to_be_tensor]
    if not names or len(names) != len(initial):
        return False
    if not any(_moves(write, name) for write in code.attribute_writes(name) if not code.is_aside(write.function)):
        return False
    # It may be None by default, and nobody in the project give one.
    return not all(map(code.is_left_none, names))


def _moves(write: Write, name: str) -> bool:
    value = write.statement.value if isinstance(write.statement, ast.Assign) else None
    return value is not None and any(isinstance(part, ast.Call) for part in walk(value)) and _only_moves(value, name)


def _takes_part(code: Code, name: str) -> bool:
    """Whether `forward` reads it, or else it meets other tensors and no method says where it is, or what it is from then on."""
    return code.is_read_in_forward(name) or (meets_tensors(code, name) and not _is_rebound(code, name))


def _is_rebound(code: Code, name: str) -> bool:
    for write in code.attribute_writes(name):
        value = write.statement.value if isinstance(write.statement, (ast.Assign, ast.AnnAssign)) else None
        reads = value is not None and _reads(value, name)
        if (value is not None and _only_moves(value, name)) or (not reads and not code.is_aside(write.function)):
            return True
    return False


def _registers(binding: Binding) -> bool:
    """Whether it binds parameters or modules only. A plain tensor cannot follow one: it stands in another branch."""
    return all(getattr(part, "kind", "") in ("parameter", "module") for part in alternatives(binding.value))


def _is_kept(code: Code, binding: Binding) -> bool:
    return binding.form in ("assign", "annotated", "setattr") and _plain(code, alternatives(binding.value)) is not None


def _plain(code: Code, values: list[Value] | tuple[Value, ...]) -> tuple[tuple[Tensor, ...], Container | None] | None:
    tensors: list[Tensor] = []
    container: Container | None = None
    for value in values:
        if isinstance(value, Const) and value.value is None:
            continue
        parts: tuple[Value, ...] = (value,)
        if isinstance(value, Container):
            if code.has_escaped(value) or value.kind not in ("list", "tuple", "dict") or not value.items:
                return None
            container = value
            parts = tuple(part for item in value.items for part in alternatives(item))
        for part in parts:
            if not is_plain_tensor(code, part):
                return None
            tensors.append(part)  # type: ignore[arg-type]
    return (tuple(tensors), container) if tensors else None


def is_plain_tensor(code: Code, value: Value) -> bool:
    """Whether a value certainly is a tensor that is neither a parameter nor a buffer nor a view of one."""
    from modellint.authoring import Tensor

    if not isinstance(value, Tensor) or not value.certain or code.has_escaped(value):
        return False
    return not value.registered and value.root.origin in ("constant", "computed")


def rewrites(code: Code, name: str) -> str:
    """Effect of the methods that others call on an attribute: ``nothing``, ``move``, ``replace``, or ``update`` from its value.

    `reset_parameters` and its like fill in what `__init__` made: `self.t = torch.empty(n)` may be a constant for all that.
    """
    effect = "nothing"
    for write in code.attribute_writes(name):
        if code.is_aside(write.function):
            continue
        value = write.statement.value if isinstance(write.statement, (ast.Assign, ast.AnnAssign)) else None
        if value is None or not _reads(value, name):
            effect = effect if effect == "update" else "replace"
        elif not _only_moves(value, name):
            effect = "update"
        elif effect == "nothing":
            effect = "move"
    if any(not code.is_aside(write.function) for write in code.part_writes(name)):
        return "update"
    return effect


def follows_tensors(code: Code, kept: Kept) -> bool:
    """Whether a constant goes to the device and type of another tensor wherever methods read it: ``self.kernel.type_as(x)``.

    Random numbers are no constant: another object of the class draws others, and no checkpoint brings them back.
    """
    if code.ref is None or kept.container is not None or kept.binding.method != "__init__":
        return False
    if any(ref.file is not code.file for ref in code.lineage) or _may_be_got(code, kept.name):
        return False
    effect = rewrites(code, kept.name)
    if effect == "update" or code.part_writes(kept.name):
        return False
    functions = [method.node for method in code.methods if isinstance(method.node, ast.FunctionDef)]
    reads = [
        (read, node)
        for node in functions
        if node.name != "__init__"
        for read in once(node, "_own_reads", _own_reads).get(kept.name, ())
    ]
    reads = [(read, node) for read, node in reads if not _asks_for_sizes(parents_in(node).get(read))]
    if effect != "nothing":
        if not _is_moved_first(code, kept.name, reads):
            return False
    elif not reads or not all(_is_cast(code, read, node) for read, node in reads):
        return False
    return not _may_be_random(code)


def _may_be_got(code: Code, name: str) -> bool:
    """Whether a call of `getattr` in the file may read an attribute, by the name that is written or computed there."""
    if "getattr(" not in code.file.source.text:
        return False
    names, starts = once(code.file.tree, "_names_got", _names_got)
    return name in names or name.startswith(starts)


def _names_got(tree: ast.Module) -> tuple[frozenset[str], tuple[str, ...]]:
    """The names that `getattr` is given in a file, and what those start with that are computed: with nothing, where that is all."""
    names: set[str] = set()
    starts: set[str] = set()
    for call in of_kind(tree, ast.Call):
        if called_name(call) == "getattr":
            match call.args:
                case [_, ast.Constant(value=str() as spelled), *_]:
                    names.add(spelled)
                case [_, ast.JoinedStr(values=[ast.Constant(value=str() as start), *_]), *_]:
                    starts.add(start)
                case _:
                    starts.add("")
    return frozenset(names), tuple(sorted(starts))


def _asks_for_sizes(parent: ast.AST | None) -> bool:
    """Whether what is read is only asked for its sizes, or whether it is there: ``self.table is None``."""
    match parent:
        case ast.Attribute(attr="shape" | "ndim" | "size" | "dim" | "numel"):
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
    return False


def _is_moved_first(code: Code, name: str, reads: list[tuple[ast.Attribute, ast.FunctionDef]]) -> bool:
    """Whether `forward` alone reads an attribute, and first of all has it go where a tensor is: ``self.table = self.table.to(x)``.

    It may make it anew before, of constants.
    """
    forward = reads[0][1] if reads else None
    if forward is None or forward.name != "forward" or any(function is not forward for _, function in reads):
        return False
    first = min((read for read, _ in reads), key=lambda read: (read.lineno, read.col_offset))
    for statement in forward.body:
        match statement:
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(value=moved))) if moved is first:
                return (
                    _attribute(target) == name
                    and _is_cast(code, first, forward)
                    and _is_made_before(code, name, forward, statement)
                )
    return False


def _is_made_before(code: Code, name: str, forward: ast.FunctionDef, moving: ast.stmt) -> bool:
    """Whether all else that methods bind an attribute to stands in `forward` before it moves it, and is made of constants."""
    from modellint.authoring import Tensor

    others = [write for write in code.attribute_writes(name) if write.statement is not moving]
    if any(write.function is not forward or write.statement.lineno > moving.lineno for write in others):
        return False
    if others and any(re.search(_DRAWS, name) for name in mentioned_in(forward)):
        return False
    written = {write.statement for write in others}
    made = [part for b in code.bindings_of(name) if b.statement in written for part in alternatives(b.value)]
    return all(
        isinstance(part, Tensor) and part.is_made and not part.is_data and is_plain_tensor(code, part) for part in made
    )


def _own_reads(function: ast.FunctionDef) -> dict[str, list[ast.Attribute]]:
    """Where a function reads attributes, by their names."""
    reads: dict[str, list[ast.Attribute]] = {}
    for part in of_kind(function, ast.Attribute):
        if isinstance(part.ctx, ast.Load):
            reads.setdefault(part.attr, []).append(part)
    return reads


def _is_cast(code: Code, read: ast.Attribute, function: ast.FunctionDef) -> bool:
    """Whether all that is done with an attribute, or with a part of it, is to take it to where another tensor is, as its type."""
    parents = parents_in(function)
    node: ast.expr = read
    parent = parents.get(read)
    while isinstance(parent, ast.Subscript) and parent.value is node:
        node, parent = parent, parents.get(parent)
    call = parents.get(parent) if isinstance(parent, ast.Attribute) else None
    if not isinstance(parent, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not parent:
        return False
    match call:
        case ast.Call(func=ast.Attribute(attr="type_as"), args=[_]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id=name)], keywords=[]) if (
            name == code.tensor_argument(function)
        ):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[_], keywords=[]):
            return _are_tensors(code, call)
        case ast.Call(func=ast.Attribute(attr="to"), args=given, keywords=words):
            values = [*given, *(word.value for word in words)]
            owners = {(part.attr, ast.unparse(part.value)) for part in values if isinstance(part, ast.Attribute)}
            names = {owner for _, owner in owners}
            return {kind for kind, _ in owners} >= {"device", "dtype"} and len(names) == 1 and "self" not in names
    return False


def _are_tensors(code: Code, call: ast.Call) -> bool:
    """Whether the argument of a call is a tensor, whenever it is read."""
    from modellint.authoring import Tensor

    values = [reading.arguments.get(0, "other") for reading in code.readings(call)]
    parts = [part for value in values for part in (alternatives(value) if value is not None else (None,))]
    return bool(parts) and all(isinstance(part, Tensor) and part.is_tensor for part in parts)


def _may_be_random(code: Code) -> bool:
    """Whether what `__init__` computes may hang on random numbers, or on code of the project that draws some."""
    init = code.file.members(code.ref.node).get("__init__") if code.ref is not None else None
    if not isinstance(init, ast.FunctionDef) or code.ref is None:
        return True
    own = {getattr(method.node, "name", ""): method.node for method in code.methods}
    pending: list[ast.FunctionDef] = [init]
    for function in pending:
        names = mentioned_in(function)
        if any(re.search(_DRAWS, name) for name in names):
            return True
        for name in names - {"__init__"}:
            other = own.get(name) or code.file.functions.get(name)
            if other is not None and not isinstance(other, ast.FunctionDef):
                return True
            if other is None and code.project.is_function_elsewhere(code.file, name):
                return True
            if other is not None and other not in pending:
                pending.append(other)
        if len(pending) > _MOST_FUNCTIONS:
            return True
    return False


_MOST_FUNCTIONS = 8
"""Functions of a file that compute a constant for each other."""
_DRAWS = r"(?i)rand|normal|uniform|bernoulli|poisson|multinomial|empty|^init$"


def is_moved_by_own_methods(code: Code, name: str) -> bool:
    """Whether a class has a `to`, `cuda` or the like of its own that moves an attribute; a module that holds it does not call that."""
    return any(
        getattr(write.function, "name", "") in MOVES and _moves(write, name) for write in code.attribute_writes(name)
    )


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == name for part in walk(node))


def _only_moves(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.Constant) and node.orelse.value is None:
        # `self.t = self.t.to(x) if self.t is not None else None`
        node = node.body
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOVES:
        node = node.func.value
    return isinstance(node, ast.Attribute) and node.attr == name


def _only_read(code: Code, name: str) -> bool:
    """Whether the class's methods do no more with a container than to look at its items."""
    assert code.ref is not None
    return name not in once(code.ref.node, "_changed", _changed)


def _changed(cls: ast.ClassDef) -> frozenset[str]:
    """The attributes with which the methods of a class do more than to look at their items."""
    names: set[str | None] = set()
    for function in cls.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        building = function.name == "__init__"
        for node in of_kind(function, ast.Subscript) if not building else ():
            if not isinstance(node.ctx, ast.Load):
                names.add(_attribute(node.value))
        for call in of_kind(function, ast.Call):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            name = _attribute(owner) if owner is not None else None
            if name is not None and not building and getattr(call.func, "attr", "") not in _READING_METHODS:
                names.add(name)
            # What is called on one attribute is no matter of the others that it is given.
            if _called(call) not in _READING_CALLS:
                names.update(
                    passed
                    for passed in map(_attribute, [*call.args, *(keyword.value for keyword in call.keywords)])
                    if passed != name
                )
    return frozenset(name for name in names if name is not None)


_READING_METHODS = frozenset({"get", "items", "keys", "values", "index", "count", "copy"})
_READING_CALLS = frozenset(
    {"len", "enumerate", "zip", "list", "tuple", "iter", "reversed", "sum", "cat", "stack", "concat"}
)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _attribute(node: ast.AST) -> str | None:
    """The name of an attribute of ``self``."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return None


def _is_before_super_init(cls: ast.ClassDef, statement: ast.stmt) -> bool:
    return any(
        first <= statement.lineno <= last and statement.lineno < call
        for first, last, call in once(cls, "_initialising", _initialising)
    )


def _initialising(cls: ast.ClassDef) -> list[tuple[int, int, int]]:
    """The rows of the methods of a class that call an `__init__`, first and last, and of the last such call."""
    stretches: list[tuple[int, int, int]] = []
    for function in cls.body:
        if isinstance(function, ast.FunctionDef):
            calls = [
                node.lineno
                for node in of_kind(function, ast.Call)
                if isinstance(node.func, ast.Attribute) and node.func.attr == "__init__"
            ]
            if calls:
                stretches.append((function.lineno, function.end_lineno or 0, max(calls)))
    return stretches


def later_values_are_tensors(code: Code, name: str) -> bool:
    """Whether every assignment to the attribute gives it what a buffer takes."""
    from modellint.authoring import Tensor

    values = [part for b in code.bindings_of(name) for part in alternatives(b.value)]
    return all((isinstance(v, Tensor) and v.certain) or (isinstance(v, Const) and v.value is None) for v in values)


def is_complex(code: Code) -> bool:
    """Whether the class names complex numbers."""
    assert code.ref is not None
    return not mentioned_in(code.ref.node).isdisjoint(_COMPLEX)


_COMPLEX = {
    "polar",
    "complex",
    "view_as_complex",
    "view_as_real",
    "complex64",
    "complex128",
    "cfloat",
    "cdouble",
    "chalf",
}


def bound_once(code: Code, kept: Kept) -> bool:
    """Whether one plain assignment in the class's own ``__init__`` binds the attribute, and nothing else in it does."""
    statement = kept.binding.statement
    if (
        kept.binding.method != "__init__"
        or kept.binding.looped
        or kept.container is not None
        or code.defines(kept.name)
    ):
        return False
    in_init = [b for b in code.bindings_of(kept.name) if b.method == "__init__" and not _registers(b)]
    if {id(b.statement) for b in in_init} != {id(statement)} or kept.binding.expression is None:
        return False
    if code.ref is None or _is_before_super_init(code.ref.node, statement):
        return False
    if isinstance(statement, ast.Assign):
        return len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Attribute)
    return isinstance(statement, ast.AnnAssign)
