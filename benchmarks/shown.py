"""Whether a file alone shows that an expression is a tensor.

Syntax only, and written apart from the linter: a call of a torch function that makes tensors, methods and arithmetic
on such, the locals that such a value went through, and the functions of the same file that return nothing else.
An argument is not shown to be anything, whatever its annotation says.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from uses import Function, targets_of

_MAKERS_WORDS = (
    "arange as_tensor bartlett_window bernoulli blackman_window block_diag cartesian_prod cat clone combinations complex "
    "column_stack concat concatenate diag dstack empty empty_like empty_strided eye from_numpy frombuffer full full_like "
    "hamming_window hann_window hstack kaiser_window linspace logspace multinomial normal ones ones_like outer "
    "poisson polar rand rand_like randint randint_like randn randn_like randperm range scalar_tensor "
    "sparse_coo_tensor stack tensor tril_indices triu_indices vander vstack zeros zeros_like "
    "Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor IntTensor LongTensor ShortTensor ByteTensor CharTensor "
    "BoolTensor"
)
_MAKERS = frozenset(_MAKERS_WORDS.split())
"""Functions of torch that give a tensor, whatever they are given."""

_SEVERAL_WORDS = (
    "meshgrid chunk split unbind tensor_split hsplit vsplit dsplit broadcast_tensors nonzero_static sort topk kthvalue "
    "mode cummax cummin frexp histogram unique_consecutive unique svd qr eig eigh slogdet lu"
)
_SEVERAL = frozenset(_SEVERAL_WORDS.split())
"""Functions and methods that give, or may give, several tensors."""

_NO_TENSOR_WORDS = (
    "size dim ndimension numel nelement item tolist numpy stride storage storage_offset untyped_storage data_ptr "
    "element_size get_device is_contiguous is_floating_point is_complex is_tensor equal allclose type dtype device "
    "is_storage is_nonzero result_type can_cast finfo iinfo manual_seed no_grad enable_grad register_hook backward "
    "__len__ names is_pinned is_shared is_cuda"
)
_NO_TENSOR = frozenset(_NO_TENSOR_WORDS.split())
_SPLIT_BY_DIM = frozenset({"max", "min", "median", "nanmedian", "aminmax", "where", "nonzero", "std_mean", "var_mean"})
"""Give several tensors in some of their forms."""

_VIEWS = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
_DEEP = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """Whether a value is shown, and by what at the least direct: ``torch``, ``a local``, ``a function``; else why it is not."""

    yes: bool
    how: str

    def through(self, step: str) -> Shown:
        order = ("torch", "a local", "a global", "a function of the file")
        return Shown(True, max(self.how, step, key=order.index)) if self.yes else self


_TORCH = Shown(True, "torch")


class Showing:
    """The question for one file."""

    def __init__(
        self, tree: ast.Module, parents: Mapping[ast.AST, ast.AST], resolved: Callable[[ast.AST], str]
    ) -> None:
        self.tree = tree
        self.parents = parents
        self.resolved = resolved

    def of(self, node: ast.expr, depth: int = 0) -> Shown:
        """Whether an expression is a tensor where it stands."""
        if depth > _DEEP:
            return Shown(False, "too deep")
        match node:
            case ast.Call():
                return self._call(node, depth)
            case ast.Name(id=name):
                return self._name(node, name, depth)
            case ast.BinOp(left=left, right=right):
                first = self.of(left, depth + 1)
                return first if first.yes else self._or(self.of(right, depth + 1), first)
            case ast.UnaryOp(operand=operand) if not isinstance(node.op, ast.Not):
                return self.of(operand, depth + 1)
            case ast.Compare(left=left, ops=[only], comparators=[right]) if not isinstance(
                only, ast.Is | ast.IsNot | ast.In | ast.NotIn
            ):
                first = self.of(left, depth + 1)
                return first if first.yes else self._or(self.of(right, depth + 1), first)
            case ast.IfExp(body=body, orelse=orelse):
                first, second = self.of(body, depth + 1), self.of(orelse, depth + 1)
                return second.through(first.how) if first.yes and second.yes else first if not first.yes else second
            case ast.Subscript(value=value):
                return self.of(value, depth + 1)
            case ast.Attribute(value=value, attr=attribute) if attribute in _VIEWS:
                return self.of(value, depth + 1)
            case ast.Attribute(value=ast.Name(id="self")):
                return Shown(False, "an attribute of self")
            case ast.Constant():
                return Shown(False, "a constant")
        return Shown(False, "another expression")

    @staticmethod
    def _or(second: Shown, first: Shown) -> Shown:
        return second if second.yes else first

    def _call(self, call: ast.Call, depth: int) -> Shown:
        full = self.resolved(call.func)
        last = full.rpartition(".")[2]
        if full.startswith("torch."):
            if full in (f"torch.{last}", f"torch.Tensor.{last}") and last in _MAKERS:
                return _TORCH
            if last in _SEVERAL | _NO_TENSOR or last in _SPLIT_BY_DIM - {"where"}:
                return Shown(False, "a torch function that need not give a tensor")
            if last == "where" and len(call.args) == 1:
                return Shown(False, "a torch function that need not give a tensor")
            if last[:1].isupper():
                return Shown(False, "an object of torch")
            return self._any([*call.args, *(keyword.value for keyword in call.keywords)], depth)
        if isinstance(call.func, ast.Attribute):
            method = call.func.attr
            receiver = self.of(call.func.value, depth + 1)
            if receiver.yes:
                if method in _SEVERAL or (method in _NO_TENSOR and not (method == "type" and call.args)):
                    return Shown(False, "a method that need not give a tensor")
                if method in _SPLIT_BY_DIM - {"where"} and (call.args or call.keywords):
                    return Shown(False, "a method that need not give a tensor")
                return receiver
        if function := self._function(call):
            return self._returned(function, depth, None)
        return Shown(False, "a call that the file does not show")

    def _any(self, values: list[ast.expr], depth: int) -> Shown:
        found = Shown(False, "a torch function of what is not shown")
        for value in values:
            items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            for item in items:
                if (shown := self.of(item, depth + 1)).yes:
                    return shown
        return found

    # -- functions of the file -----------------------------------------------------------------------

    def _function(self, call: ast.Call) -> Function | None:
        """The function of the file, or the method of the class around, that is called."""
        match call.func:
            case ast.Name(id=name):
                return _named(self.tree.body, name)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                around = self._around(call, ast.ClassDef)
                if isinstance(around, ast.ClassDef) and owner in ("self", "cls", around.name):
                    return _named(around.body, name)
                other = next((n for n in self.tree.body if isinstance(n, ast.ClassDef) and n.name == owner), None)
                return _named(other.body, name) if other else None
        return None

    def _returned(self, function: Function, depth: int, item: int | None) -> Shown:
        values = [node.value for node in _own(function) if isinstance(node, ast.Return)]
        if not values or any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(function)):
            return Shown(False, "a function of the file that returns no tensor")
        result = _TORCH
        for value in values:
            if value is None:
                return Shown(False, "a function of the file that returns no tensor")
            if item is None:
                shown = self.of(value, depth + 1)
            elif isinstance(value, ast.Tuple) and item < len(value.elts):
                shown = self.of(value.elts[item], depth + 1)
            else:
                shown = Shown(False, "one of several values")
            if not shown.yes:
                return Shown(False, f"a function of the file ({shown.how.removeprefix('a function of the file ')})")
            result = result.through(shown.how)
        return result.through("a function of the file")

    # -- names ---------------------------------------------------------------------------------------

    def _around(self, node: ast.AST, kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> ast.AST | None:
        current: ast.AST | None = self.parents.get(node)
        while current is not None and not isinstance(current, kind):
            current = self.parents.get(current)
        return current

    def _name(self, node: ast.expr, name: str, depth: int) -> Shown:
        function = self._around(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if not isinstance(function, Function):
            return Shown(False, "another expression")
        found = list(self._reaching(node, name, function))
        if not found:
            return self._global(name, function, depth)
        result = _TORCH
        for definition in found:
            if definition is None:
                return Shown(False, "an argument")
            shown = self._bound(*definition, depth)
            if not shown.yes:
                return shown
            result = result.through(shown.how)
        return result.through("a local")

    def _global(self, name: str, function: Function, depth: int) -> Shown:
        if any(isinstance(node, ast.Name) and node.id == name and _is_stored(node) for node in ast.walk(function)):
            return Shown(False, "a local of another kind")
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign) and any(_is(target, name) for target in statement.targets):
                shown = self.of(statement.value, depth + 1)
                return shown.through("a global")
        return Shown(False, "a name from elsewhere")

    def _bound(self, value: ast.expr | None, item: int | None, depth: int) -> Shown:
        """What a definition gives: the value, or one item of it."""
        if value is None:
            return Shown(False, "a local of another kind")
        if item is None:
            return self.of(value, depth + 1)
        if isinstance(value, ast.Tuple | ast.List) and item < len(value.elts):
            return self.of(value.elts[item], depth + 1)
        if isinstance(value, ast.Call):
            if (function := self._function(value)) is not None:
                return self._returned(function, depth, item)
            last = value.func.attr if isinstance(value.func, ast.Attribute) else ""
            if last in _SEVERAL:
                if self.resolved(value.func) == f"torch.{last}":
                    return _TORCH if last == "meshgrid" else self._any(value.args, depth)
                if isinstance(value.func, ast.Attribute):
                    return self.of(value.func.value, depth + 1)
        return Shown(False, "one of several values")

    def _reaching(
        self, node: ast.AST, name: str, function: Function
    ) -> Iterator[tuple[ast.expr | None, int | None] | None]:
        """The definitions of a local that may reach a place, loops left aside; ``None`` stands for the argument."""
        child = node
        while child is not function:
            parent = self.parents[child]
            for block in ("body", "orelse", "finalbody", "handlers"):
                statements = getattr(parent, block, None)
                if not isinstance(statements, list) or child not in statements:
                    continue
                for earlier in reversed(statements[: statements.index(child)]):
                    yield from _definitions(earlier, name)
                    if _surely(earlier, name):
                        return
            if (
                isinstance(parent, ast.For)
                and child in parent.body
                and any(_is(t, name) for t in ast.walk(parent.target))
            ):
                yield None, None
                return
            child = parent
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        if any(argument is not None and argument.arg == name for argument in every):
            yield None


def _definitions(statement: ast.stmt, name: str) -> Iterator[tuple[ast.expr | None, int | None]]:
    for node in _own(statement):
        match node:
            case ast.Assign() | ast.AnnAssign() if node.value is not None:
                for target in targets_of(node):
                    if _is(target, name):
                        yield node.value, None
                    elif isinstance(target, ast.Tuple | ast.List):
                        for index, part in enumerate(target.elts):
                            if _is(part, name):
                                yield node.value, index
            case ast.For(target=target) | ast.withitem(optional_vars=ast.expr() as target):
                if any(_is(part, name) for part in ast.walk(target)):
                    yield None, None
            case ast.NamedExpr(target=target, value=value) if _is(target, name):
                yield value, None
            case _:
                pass


def _surely(statement: ast.stmt, name: str) -> bool:
    """Whether a statement defines the name on every way through it, or does not come back."""
    match statement:
        case ast.Assign() | ast.AnnAssign() if statement.value is not None:
            return any(
                _is(part, name)
                for target in targets_of(statement)
                for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
            )
        case ast.If(body=body, orelse=orelse):
            return bool(orelse) and _block(body, name) and _block(orelse, name)
        case ast.With(body=body):
            return _block(body, name)
    return False


def _block(statements: list[ast.stmt], name: str) -> bool:
    return any(isinstance(s, ast.Return | ast.Raise | ast.Continue | ast.Break) or _surely(s, name) for s in statements)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, without the functions and classes inside."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own(child)


def _named(body: list[ast.stmt], name: str) -> Function | None:
    return next((node for node in body if isinstance(node, Function) and node.name == name), None)


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
