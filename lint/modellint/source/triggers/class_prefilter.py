"""Which module classes cannot hold a finding, by a look at their syntax that costs a fraction of reading them.

The look errs on one side only: a class that is passed over has no plain container on ``self`` that could hold a module or
parameter, and an ``__init__`` that starts by calling its base's. It mirrors what the interpreter can conclude.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from modellint.rule import Feature
from modellint.source.engine.entry_methods import entered
from modellint.source.project.external_name_facts import may_build
from modellint.source.project.hidden_holders import may_hold
from modellint.source.project.symbols import ClassRef, FunctionRef, Imported, dotted_name
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, walk
from modellint.source.syntax.function_bindings import FunctionBindings

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_MAKERS = frozenset(
    {
        "list",
        "tuple",
        "set",
        "dict",
        "frozenset",
        "sorted",
        "OrderedDict",
        "defaultdict",
        "deque",
        "fromkeys",
        "copy",
        "deepcopy",
    }
)
_COMPUTING = frozenset(
    {
        "int",
        "float",
        "str",
        "len",
        "range",
        "round",
        "sum",
        "min",
        "max",
        "bool",
        "abs",
        "dict",
        "list",
        "tuple",
        "set",
        "sorted",
    }
    | {
        "zip",
        "enumerate",
        "type",
        "isinstance",
        "hasattr",
        "repr",
        "any",
        "all",
        "reversed",
        "frozenset",
        "slice",
        "divmod",
    }
)
_PLAIN_METHODS = frozenset(
    {
        "format",
        "join",
        "split",
        "lower",
        "upper",
        "strip",
        "replace",
        "item",
        "tolist",
        "size",
        "numel",
        "dim",
        "keys",
        "index",
    }
)
"""Methods of strings, tensors and containers that give numbers and strings."""
_PLAIN_TYPES = frozenset(
    {
        "int",
        "str",
        "float",
        "bool",
        "bytes",
        "Tensor",
        "Union",
        "Optional",
        "Tuple",
        "tuple",
        "List",
        "list",
        "Sequence",
        "Dict",
    }
    | {"dict", "torch", "typing", "t", "dtype", "device", "Literal", "Iterable"}
)


def may_matter(ref: ClassRef, project: Project, wakes_on: Collection[Feature | None]) -> bool:
    """Whether a class has to be read for rules that wake on these features. ``False`` is sure; ``True`` is not."""
    if None in wakes_on:
        return True
    if Feature.INIT_WITHOUT_BASE in wakes_on and _init_may_matter(ref.node):
        return True
    if Feature.CONTAINER_ON_SELF not in wakes_on:
        return False
    return _body_may_matter(ref.node) or _Look(ref, project, ref.file).container_may_matter() or may_hold(ref, project)


def _body_may_matter(node: ast.ClassDef) -> bool:
    """Whether the body of a class may make a module with state."""
    return any(
        isinstance(statement, (ast.Assign, ast.AnnAssign))
        and statement.value is not None
        and any(may_build(called_name(call)) for call in of_kind(statement, ast.Call))
        for statement in node.body
    )


def _init_may_matter(node: ast.ClassDef) -> bool:
    init = next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    if init is None:
        return False
    for statement in init.body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"))):
                return False
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass():
                continue
            case ast.Assign(targets=[ast.Name()]):
                continue
            case ast.Assign(targets=[ast.Attribute()], value=ast.Constant() | ast.Name()):
                continue
        return True
    return True


class _Look:
    def __init__(self, ref: ClassRef | None, project: Project, file: IndexedFile) -> None:
        self.project = project
        self.file = file
        lineage = project.lineage(ref) if ref is not None else []
        self.foreign = any(one.file is not file for one in lineage)
        self.methods = {function.name for one in lineage if one.file is file for function in functions_in([one.node])}
        run = entered(lineage, file)
        self.named_abroad = run.named_abroad
        self.functions = [file.bound_in(function) for function in run.own]
        self._deciding: set[tuple[int, str]] = set()
        self._decided: dict[tuple[int, str], bool] = {}
        self._stores: dict[str, list[tuple[ast.expr | None, FunctionBindings]]] = {}
        self._fills: dict[str, list[tuple[ast.expr | None, FunctionBindings]]] = {}
        self._named: dict[str, list[FunctionBindings]] = {}
        for one in self.functions:
            self._named.setdefault(one.node.name, []).append(one)
            for name, value in one.stores:
                self._stores.setdefault(name, []).append((value, one))
            for name, value in one.fills:
                self._fills.setdefault(name, []).append((value, one))

    def _decide(self, key: tuple[int, str], circular: bool, ask: Callable[[], bool]) -> bool:
        """The answer to a question that may lead back to itself, which is then ``circular``; kept where nothing else led to it."""
        if key in self._decided:
            return self._decided[key]
        if key in self._deciding:
            return circular
        first = not self._deciding
        self._deciding.add(key)
        try:
            found = ask()
        finally:
            self._deciding.discard(key)
        # One that is not what a circle makes of it rests on no circle.
        if first or found is not circular:
            self._decided[key] = found
        return found

    def container_may_matter(self) -> bool:
        """Whether some attribute may be a plain container of modules or parameters."""
        filled = {
            attribute
            for function in self.functions
            for attribute, value in function.fills
            if not self._inert(value, function)
        }
        stored: set[str] = set()
        binders = self._binds_parameters()
        for function in self.functions:
            for attribute, value in function.stores:
                stored.add(attribute)
                if self._boxy(value, function) and (attribute in filled or not self._inert(value, function)):
                    return True
            if binders and any(
                self._boxy(value, function) and not self._inert(value, function) for value in function.loose
            ):
                return True
        if not self.foreign:
            return False
        # A base in another file may bind what is filled here, or what a method here gives back.
        return bool(filled - stored) or any(
            self._boxy(value, function) and not self._inert(value, function)
            for function in self.functions
            if function.node.name in self.named_abroad
            for value in function.returns
        )

    def _binds_parameters(self) -> bool:
        """Whether anything but ``__init__`` binds what it is handed: a method, ``setattr``, or a function given ``self``."""
        for function in self.functions:
            if function.calls_outside:
                return True
            if not function.is_init:
                for _, value in function.stores:
                    if any(isinstance(part, ast.Name) and part.id in function.parameters for part in walk(value)):
                        return True
        return False

    def _boxy(self, node: ast.expr | None, function: FunctionBindings) -> bool:
        """Whether an expression may give a plain container."""
        match node:
            case None:
                return True
            case ast.List() | ast.Set() | ast.Dict() | ast.Tuple() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                return True
            case ast.IfExp():
                return self._boxy(node.body, function) or self._boxy(node.orelse, function)
            case ast.BoolOp():
                return any(self._boxy(part, function) for part in node.values)
            case ast.BinOp():
                return self._boxy(node.left, function) or self._boxy(node.right, function)
            case ast.Subscript() if not isinstance(node.slice, ast.Slice):
                # Only a container of containers gives one.
                if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
                    return self._call_is_boxy(node.value, function, elements=True)
                return self._boxy(node.value, function) and not self._inert(node.value, function)
            case ast.NamedExpr() | ast.Await() | ast.Starred() | ast.Subscript():
                return self._boxy(node.value, function)
            case ast.Name():
                return self._name_is_boxy(node.id, function)
            case ast.Attribute():
                attribute = function.attribute(node)
                if attribute is None:
                    return False
                stores = self._stores.get(attribute, ())
                return self._decide(
                    (0, "." + attribute), False, lambda: any(self._boxy(value, other) for value, other in stores)
                )
            case ast.Call():
                return self._call_is_boxy(node, function)
        return False

    def _call_is_boxy(self, node: ast.Call, function: FunctionBindings, elements: bool = False) -> bool:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _MAKERS:
            return True
        if name[:1].isupper():
            return False
        if isinstance(node.func, ast.Name):
            if name in function.locals or name in function.parameters:
                return name in function.locals
            bindings = self.file.names.get(name)
            if bindings is None:
                return bool(self.file.stars)
            return any(
                not isinstance(binding, Imported) or self._gives_box(binding, name, elements) for binding in bindings
            )
        dotted = dotted_name(node.func)
        if dotted is None:
            # A method of something that is made on the spot.
            return self._boxy(node.func.value, function) if isinstance(node.func, ast.Attribute) else True
        root, _, rest = dotted.partition(".")
        if root == function.self_name:
            return "." not in rest and self._method_is_boxy(rest)
        if root in function.locals or root in function.parameters:
            return self._boxy(ast.Name(root, ast.Load()), function)
        bindings = self.file.names.get(root, [])
        return any(isinstance(binding, Imported) and self._is_ours(binding) for binding in bindings)

    def _method_is_boxy(self, name: str) -> bool:
        if name not in self.methods:
            return self.foreign
        return self._decide(
            (0, name + "()"),
            False,
            lambda: any(
                self._boxy(value, function) for function in self._named.get(name, ()) for value in function.returns
            ),
        )

    def _gives_box(self, binding: Imported, name: str, elements: bool) -> bool:
        """Whether a function from another file of the project may give a plain container of objects, or one of such."""
        if not self._is_ours(binding):
            return False
        symbol = self.project.resolve(self.file, name)
        if not isinstance(symbol, FunctionRef):
            return not isinstance(symbol, ClassRef)
        key = (id(symbol.node), "given")
        if key in self._deciding or len(self._deciding) > 20:
            return key not in self._deciding
        there = _Look(None, self.project, symbol.file)
        there._deciding = self._deciding
        function = FunctionBindings(symbol.node)
        self._deciding.add(key)
        try:
            values = [
                part
                for value in function.returns
                for part in (value.elts if elements and isinstance(value, ast.Tuple) else [value])
            ]
            return any(there._boxy(value, function) and not there._inert(value, function) for value in values)
        finally:
            self._deciding.discard(key)

    def _is_ours(self, binding: Imported) -> bool:
        found = self.project.find(binding.module, binding.level, self.file.path)
        if found is None and binding.name is not None:
            module = f"{binding.module}.{binding.name}".lstrip(".")
            found = self.project.find(module, binding.level, self.file.path)
        return found is not None

    def _inert(self, node: ast.expr | None, function: FunctionBindings) -> bool:
        """Whether an expression is sure to give, or hold, neither modules nor parameters."""
        match node:
            case None:
                return False
            case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.Lambda():
                return True
            case ast.UnaryOp():
                return self._inert(node.operand, function)
            case ast.BinOp():
                return self._inert(node.left, function) and self._inert(node.right, function)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._all_inert(node.elts, function)
            case ast.Dict():
                return self._all_inert(node.values, function)
            case ast.BoolOp():
                return self._all_inert(node.values, function)
            case ast.IfExp():
                return self._inert(node.body, function) and self._inert(node.orelse, function)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._inert(node.elt, function)
            case ast.DictComp():
                return self._inert(node.value, function)
            case ast.Starred() | ast.NamedExpr() | ast.Subscript():
                return self._inert(node.value, function)
            case ast.Attribute():
                attribute = function.attribute(node)
                if attribute is not None:
                    return self._attribute_is_inert(attribute)
                dotted = dotted_name(node)
                return dotted is not None and dotted.partition(".")[0] != function.self_name
            case ast.Name():
                return self._name_is_inert(node.id, function)
            case ast.Call():
                return self._call_is_inert(node, function)
        return False

    def _all_inert(self, nodes: Iterable[ast.expr | None], function: FunctionBindings) -> bool:
        return all(self._inert(node, function) for node in nodes)

    def _call_is_inert(self, node: ast.Call, function: FunctionBindings) -> bool:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Name):
            return node.func.id in _COMPUTING and self._all_inert(arguments, function)
        dotted = dotted_name(node.func)
        if dotted is not None:
            root, _, rest = dotted.partition(".")
            bindings = self.file.names.get(root, [])
            if bindings and root not in function.locals and root not in function.parameters:
                libraries = [binding.module.partition(".")[0] for binding in bindings if isinstance(binding, Imported)]
                plain = all(library in ("torch", "numpy", "math") for library in libraries)
                named = all(
                    isinstance(b, Imported) and b.name is None and b.module in ("torch", "numpy", "math")
                    for b in bindings
                )
                return plain and named and not rest.startswith("nn.") and rest[:1].islower()
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PLAIN_METHODS:
            return self._inert(node.func.value, function) and self._all_inert(arguments, function)
        return False

    def _attribute_is_inert(self, attribute: str) -> bool:
        """Whether all that is ever stored in an attribute of ``self``, or put into it, is inert."""
        values = [*self._stores.get(attribute, ()), *self._fills.get(attribute, ())]
        if not values or self.foreign:
            return False
        return self._decide(
            (0, "inert ." + attribute), True, lambda: all(self._inert(value, other) for value, other in values)
        )

    def _name_is_inert(self, name: str, function: FunctionBindings) -> bool:
        if name in function.parameters and not function.is_init:
            return False
        if name in function.parameters:
            annotation = function.parameters[name]
            if annotation is not None and not _is_plain_type(annotation):
                return False
        elif name not in function.locals:
            return False
        return self._decide(
            (id(function), "inert " + name), True, lambda: self._all_inert(function.locals.get(name, ()), function)
        )

    def _name_is_boxy(self, name: str, function: FunctionBindings) -> bool:
        if name not in function.locals:
            # A parameter is the caller's: what the class itself hands over is met where it does so.
            return name not in function.parameters and name in self.file.names and not self._is_import(name)
        return self._decide(
            (id(function), "boxy " + name),
            False,
            lambda: any(self._boxy(value, function) for value in function.locals[name]),
        )

    def _is_import(self, name: str) -> bool:
        return all(isinstance(binding, Imported) for binding in self.file.names[name])


def _is_plain_type(annotation: ast.expr) -> bool:
    """Whether an annotation names nothing but numbers, strings, tensors and containers of them."""
    for part in walk(annotation):
        if isinstance(part, ast.Name) and part.id not in _PLAIN_TYPES:
            return False
        if isinstance(part, ast.Attribute) and part.attr not in _PLAIN_TYPES:
            return False
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value not in _PLAIN_TYPES:
            return False
    return True
