"""Right ways to choose, update and ask in real ``forward`` methods, and the text with one of them made wrong.

``torch.where`` becomes an assignment by a mask, ``x + y`` of a view becomes ``add_``, a buffer's update loses its
``if self.training``, and a test of a size becomes one of a sum. What would be no defect once undone is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from classes import FileFacts, Tree
from modellint.source.syntax.source_text import SourceText
from unfix import Binding, Finder, Site, Sites
from uses import Excluded, Function, ancestors

WHERE = "where"
VIEW = "add-of-view"
GUARD = "guarded-update"
SIZE = "size-test"
KINDS = (WHERE, VIEW, GUARD, SIZE)

_MODE = re.compile(
    r"\b\w*training\b|\bis_train\b|grad_enabled|is_tracing|is_scripting|is_\w*compiling|export|requires_grad"
)
LOSS = re.compile(
    r"Loss|Criteri|HungarianMatcher|Assigner|Metric|Penalty|Regulari[sz]|Evaluator|Augment|Miner|(?:^|_)loss"
    r"|BeamSearch|Searcher"
)
_ASIDE = re.compile(r"(?:^|\.)(?:augmentations?|loss(?:es)?)\.")
"""Packages of what only training runs."""
_LABELS = re.compile(r"\b\w*(?:label|target|gt)s?\b")
_VIEWS = {"view", "transpose", "permute", "t", "unsqueeze", "squeeze", "narrow", "select", "flatten_"}
_TALK = {"warn", "warning", "info", "debug", "error", "print", "warning_once"}


def find_sites(source: SourceText, tree: ast.Module, facts: FileFacts, project: Tree) -> Sites:
    """Every site of a file, and why the other candidates are none."""
    return Forward(source, tree, facts, project).run()


class Forward(Finder):
    """Finds sites in what ``forward`` runs."""

    def run(self) -> Sites:
        sites: list[Site] = []
        for cls in (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)):
            named = [cls.name, *(ast.unparse(base) for base in cls.bases)]
            if cls.lineno not in self.module_rows or any(map(LOSS.search, named)):
                continue
            if _ASIDE.search(self.facts.module):
                continue
            for method in run_by_forward(cls, self.is_for_training):
                for node in ast.walk(method):
                    for kind, find in ((WHERE, self.where), (VIEW, self.view), (GUARD, self.guard), (SIZE, self.size)):
                        try:
                            site = find(node, cls, method)
                        except Excluded as why:
                            self.reason[kind, str(why)] += 1
                        else:
                            sites += [site] if site is not None else []
        return Sites(sorted(sites, key=lambda site: site.start), self.reason)

    def site(self, kind: str, form: str, cls: ast.ClassDef, node: ast.AST, edit: tuple[int, int, str]) -> Site:
        around = node if isinstance(node, ast.stmt) else self.enclosing(node, ast.stmt)
        row, end = getattr(around, "lineno", 0), getattr(around, "end_lineno", 0)
        if isinstance(node, ast.If) and kind != GUARD:
            end = node.test.end_lineno or row
        return Site(
            kind,
            form,
            cls.name,
            self.qualname(cls),
            cls.lineno,
            cls.end_lineno or cls.lineno,
            row,
            *edit,
            (Binding("", "", row, end),),
        )

    def text(self, node: ast.expr) -> str:
        start, end = self.offsets(node)
        return self.source.text[start:end]

    def is_for_training(self, call: ast.Call, method: Function) -> bool:
        """Whether a test of the mode around a call lets training alone run it."""
        child: ast.AST = call
        for parent in ancestors(call, self.parents):
            test = ast.unparse(parent.test) if isinstance(parent, ast.If) else ""
            if isinstance(parent, ast.If) and child in parent.body and _MODE.search(test):
                return re.search(r"\bnot\b|\bor\b", test) is None
            if parent is method:
                return False
            child = parent
        return False

    def refuse(self, node: ast.AST, method: Function) -> None:
        """Leave out what a test around it, or one that leaves the function before it, keeps out of an exported model."""
        child: ast.AST = node
        for parent in ancestors(node, self.parents):
            test = getattr(parent, "test", None)
            if isinstance(test, ast.expr) and child is not test:
                if _MODE.search(ast.unparse(test)):
                    raise Excluded("behind a test of the mode")
                if _LABELS.search(ast.unparse(test)):
                    raise Excluded("behind a test for labels")
            for block in ("body", "orelse"):
                statements = getattr(parent, block, None)
                if isinstance(statements, list) and child in statements:
                    for earlier in statements[: statements.index(child)]:
                        if (
                            isinstance(earlier, ast.If)
                            and _MODE.search(ast.unparse(earlier.test))
                            and _leaves(earlier.body)
                        ):
                            raise Excluded("behind a test of the mode")
            if parent is method:
                return
            if isinstance(parent, ast.FunctionDef) and not _calls(method, parent.name):
                raise Excluded("in a function that is only handed on")
            child = parent

    def where(self, node: ast.AST, cls: ast.ClassDef, method: Function) -> Site | None:
        """`y = torch.where(m, v, w)` to `y = w.clone(); y[m] = v`."""
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(args=[mask, value, other], keywords=[]) as call
            ):
                if self.resolved(call.func) != "torch.where":
                    return None
            case _:
                return None
        if _is_number(other, method):
            raise Excluded("a number where the mask does not hold")
        self.refuse(node, method)
        form = "mask is a comparison" if isinstance(mask, ast.Compare) else type(mask).__name__
        used = any(isinstance(part, ast.Name) and part.id == name for one in (mask, value) for part in ast.walk(one))
        # What is read again must not be lost: `y = torch.where(m, y, w)`.
        made = f"{name}_chosen" if used else name
        mended = f"{made} = ({self.text(other)}).clone(); {made}[{self.text(mask)}] = {self.text(value)}"
        if used:
            mended += f"; {name} = {made}"
        return self.site(WHERE, form, cls, node, (*self.offsets(node), mended))

    def is_own(self, name: str, cls: ast.ClassDef, method: Function) -> bool:
        """Whether a parameter is an attribute of the object wherever the class calls the method."""
        names = [one.arg for one in (*method.args.posonlyargs, *method.args.args)]
        if name not in names[1:]:
            return False
        at = names.index(name) - 1
        given: list[ast.expr] = []
        for call in (node for node in ast.walk(cls) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == f"self.{method.name}":
                given += call.args[at : at + 1] or [one.value for one in call.keywords if one.arg == name]
        return bool(given) and all(isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self" for one in given)

    def view(self, node: ast.AST, cls: ast.ClassDef, method: Function) -> Site | None:
        """`x[:, 0] + y` to `x[:, 0].add_(y)`, where `x` is read later."""
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
            return None
        base = _viewed(node.left)
        if base is None:
            return None
        if not _is_read_later(method, node, base):
            raise Excluded("the original is not read later")
        if base not in _made_tensors(method):
            raise Excluded("not shown to be a view of a tensor")
        self.refuse(node, method)
        left, right = self.text(node.left), self.text(node.right)
        start, end = self.offsets(node)
        return self.site(VIEW, type(node.left).__name__, cls, node, (start, end, f"{left}.add_({right})"))

    def guard(self, node: ast.AST, cls: ast.ClassDef, method: Function) -> Site | None:
        """`if self.training:` around an update of a buffer to `if True:`."""
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "self.training"):
            return None
        buffers = set(_buffers(cls))
        if not any(_written(statement) & buffers for statement in ast.walk(node) if isinstance(statement, ast.stmt)):
            raise Excluded("no update of a buffer")
        start, end = self.offsets(node.test)
        return self.site(GUARD, "if self.training", cls, node, (start, end, "True"))

    def size(self, node: ast.AST, cls: ast.ClassDef, method: Function) -> Site | None:
        """`if x.shape[1] > 4:` to `if x.sum() > 4:`."""
        if not (isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Compare)):
            return None
        match node.test.left:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant() | ast.UnaryOp()
            ):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[_]):
                pass
            case _:
                return None
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.test.ops):
            return None
        if isinstance(node, ast.If) and not node.orelse and all(map(_only_says, node.body)):
            raise Excluded("a check that only raises or warns")
        if name not in _made_tensors(method) or _is_kept(name, method) or self.is_own(name, cls, method):
            raise Excluded("not shown to depend on the data")
        if _is_array(name, method):
            raise Excluded("an array of NumPy's")
        self.refuse(node, method)
        return self.site(SIZE, type(node).__name__, cls, node, (*self.offsets(node.test.left), f"{name}.sum()"))


def run_by_forward(
    cls: ast.ClassDef, is_aside: Callable[[ast.Call, Function], bool] = lambda call, method: False
) -> Iterator[Function]:
    """The methods that ``forward`` calls, itself included, but for calls that are ``is_aside``."""
    methods = {item.name: item for item in cls.body if isinstance(item, Function)}
    pending, seen = ["forward"], set[str]()
    while pending:
        method = methods.get(name := pending.pop())
        if method is None or name in seen:
            continue
        seen.add(name)
        yield method
        for call in (node for node in ast.walk(method) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("self", cls.name):
                pending += [] if is_aside(call, method) else [call.func.attr]


def _viewed(node: ast.expr) -> str | None:
    """The variable of which an expression is a view."""
    views = False
    while True:
        match node:
            case ast.Subscript(value=inner, slice=index) if _is_basic(index):
                node, views = inner, True
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _VIEWS:
                node, views = inner, True
            case ast.Name(id=name) if views:
                return name
            case _:
                return None


def _is_basic(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    slices = any(isinstance(part, ast.Slice) for part in parts)
    return slices and all(isinstance(part, ast.Slice | ast.Constant | ast.UnaryOp) for part in parts)


def _is_read_later(method: Function, node: ast.AST, name: str) -> bool:
    """Whether a variable's values are read in a later statement before it is bound anew."""
    end = getattr(node, "end_lineno", 0)
    events = [
        (part.lineno, 0 if isinstance(part.ctx, ast.Load) else 1, isinstance(part.ctx, ast.Load))
        for part in ast.walk(method)
        if isinstance(part, ast.Name) and part.id == name and part.lineno > end
    ]
    bound_here = any(
        isinstance(statement, ast.Assign)
        and statement.lineno <= getattr(node, "lineno", 0) <= (statement.end_lineno or 0)
        and any(
            isinstance(part, ast.Name) and part.id == name for target in statement.targets for part in ast.walk(target)
        )
        for statement in ast.walk(method)
    )
    asked = {
        part.value
        for part in ast.walk(method)
        if isinstance(part, ast.Attribute) and part.attr in ("shape", "device", "dtype")
    }
    read = {
        part.lineno for part in ast.walk(method) if isinstance(part, ast.Name) and part.id == name and part not in asked
    }
    return bool(events) and not bound_here and min(events)[2] and min(events)[0] in read


def _made_tensors(method: Function) -> set[str]:
    """Variables that a `forward` is given or computes, by what is done with them."""
    found: set[str] = set()
    for node in ast.walk(method):
        match node:
            case ast.Attribute(
                value=ast.Name(id=name), attr="shape" | "size" | "device" | "dtype" | "view" | "transpose" | "permute"
            ):
                found.add(name)
    given = {one.arg for one in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)}
    constant = {
        target.id
        for node in ast.walk(method)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        and not any(isinstance(p, ast.Name) and p.id != "self" for p in ast.walk(node.value))
    }
    return {name for name in found if name in given or name not in constant}


def _is_kept(name: str, method: Function) -> bool:
    """Whether a variable is bound only to what the object keeps, and to what is made of that."""
    stores = (node for node in ast.walk(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    bound = [node for node in stores if node.id == name]
    values = [
        node.value
        for node in ast.walk(method)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == name
    ]
    plain = {name, "self", "getattr", "F", "torch"}
    return 0 < len(values) == len(bound) and all(plain.issuperset(_read(value)) for value in values)


def _read(node: ast.expr) -> Iterator[str]:
    """The variables whose values an expression reads: types, devices, sizes and the text of names are none of those."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.JoinedStr() | ast.Attribute(attr="dtype" | "device" | "shape"):
            return
        case _:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    yield from _read(part)
                elif isinstance(part, ast.keyword):
                    yield from _read(part.value)


def _is_number(node: ast.expr, method: Function) -> bool:
    """Whether an expression is a number: it has no `clone`."""
    match node:
        case ast.Constant() | ast.UnaryOp():
            return True
        case ast.Attribute(attr="inf" | "nan" | "pi"):
            return True
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="finfo" | "iinfo"))):
            return True
        case ast.Call(func=ast.Name(id="float" | "int" | "len")):
            return True
        case ast.Name(id=name):
            values = [
                part.value
                for part in ast.walk(method)
                if isinstance(part, ast.Assign)
                and any(isinstance(target, ast.Name) and target.id == name for target in part.targets)
            ]
            # A constant of the file.
            return all(_is_number(value, method) for value in values) if values else name.isupper()
    return False


def _is_array(name: str, method: Function) -> bool:
    """Whether a variable is bound to what NumPy gives."""
    return any(
        isinstance(part, ast.Assign)
        and any(
            isinstance(inner, ast.Name) and inner.id == name for target in part.targets for inner in ast.walk(target)
        )
        and any(isinstance(inner, ast.Name) and inner.id in ("np", "numpy") for inner in ast.walk(part.value))
        for part in ast.walk(method)
    )


def _calls(method: Function, name: str) -> bool:
    """Whether a method calls a function of that name itself, or through `checkpoint`."""
    return any(
        isinstance(part, ast.Call)
        and (
            (isinstance(part.func, ast.Name) and part.func.id == name)
            or ("checkpoint" in ast.unparse(part.func) and any(getattr(one, "id", "") == name for one in part.args))
        )
        for part in ast.walk(method)
    )


def _buffers(cls: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(cls):
        match node:
            case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=str() as name), *_]):
                yield name


def _written(statement: ast.stmt) -> set[str]:
    """Attributes of the object that a statement sets or changes in place."""
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.AugAssign(target=target):
            targets = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name))) if name.endswith("_"):
            targets = [owner]
        case _:
            return set()
    return {part.attr for target in targets for part in ast.walk(target) if isinstance(part, ast.Attribute)}


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue)


def _only_says(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise() | ast.Assert() | ast.Pass():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return name in _TALK
    return False
