"""Call sites: where in the project the objects of a module class, its methods or a function are called.

A class is followed to the attributes that modules keep its objects in, and from these to their calls. Nothing is told where an object
goes elsewhere.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_in_tests
from modellint.source.roles.training_parts import is_training_hook
from modellint.source.syntax.ast_walk import functions_in, of_kind, parents_in, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
MOST_FILES = 24
"""What more files than these name is not followed."""


class Site(NamedTuple):
    """A call of a `forward`, and what is around it."""

    call: ast.Call
    function: _Function | None
    owner: ClassRef | None


def is_only_trained(project: Project, ref: ClassRef) -> bool:
    """Whether the project gives the objects of a class to a trainer, and nothing calls their `forward`: neither a hook nor anyone else."""
    methods = functions_in([ref.node])
    if ref.within or ref.node.decorator_list or not any(map(is_training_hook, methods)):
        return False
    calls = Calls(project)
    return calls.sites(ref) == [] and calls.is_built(ref)


class Calls:
    """The calls of modules in a project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def on_self(self, name: str) -> list[Site] | None:
        """The calls of all methods of a name; None where not all are calls of one's own: `self.encode(x)`."""
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = mentions.naming(name)
        if not mentions.is_whole or len(paths) > MOST_FILES or mentions.is_in_configuration(name):
            return None
        sites: list[Site] = []
        for path in paths:
            file = None if path.endswith(".ipynb") else self.project.file(path)
            if file is None or any(part.value == name for part in of_kind(file.tree, ast.Constant)):
                return None
            own = [
                Site(call, function, ClassRef(file, cls))
                for cls in file.tree.body
                if isinstance(cls, ast.ClassDef)
                for function in functions_in([cls])
                for call in of_kind(function, ast.Call)
                if isinstance(call.func, ast.Attribute) and call.func.attr == name and _is_of_self(call.func)
            ]
            # It may be called from outside, or by another name.
            if sum(part.attr == name for part in of_kind(file.tree, ast.Attribute)) != len(own):
                return None
            sites += own
        return sites

    def of_function(self, file: IndexedFile, function: _Function, by_functions: bool = False) -> list[Site] | None:
        """The calls of a function at the top of a file that are in no test; None where others than methods may call it.

        Functions may do so too where ``by_functions`` is set.
        """
        self.project.touch_tree()
        mentions = self.project.mentions
        name = function.name
        paths = dict.fromkeys((file.path, *mentions.naming(name)))
        if (
            function not in file.tree.body
            or len(file.names.get(name, ())) > 1
            or not mentions.is_whole
            or len(paths) > MOST_FILES
            or mentions.is_in_configuration(name)
        ):
            return None
        sites: list[Site] = []
        for path in paths:
            other = file if path == file.path else None if path.endswith(".ipynb") else self.project.file(path)
            if other is None or any(
                alias.name == name and alias.asname not in (None, name) for alias in of_kind(other.tree, ast.alias)
            ):
                return None
            if is_in_tests(self.project, other):
                continue
            for mention in mentions_in(other, name):
                if (
                    mention.is_in_test
                    or mention.is_demonstration
                    or self._is_another_function(mention, other, function)
                ):
                    continue
                called = (call for call in of_kind(mention.statement, ast.Call) if call.func is mention.node)
                call = next(called, None)
                if call is None or mention.function is None or (mention.cls is None and not by_functions):
                    return None
                sites.append(Site(call, mention.function, None))
        return sites

    def _is_another_function(self, mention: Mention, place: IndexedFile, function: _Function) -> bool:
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        return isinstance(symbol, (ClassRef, FunctionRef)) and symbol.node is not function

    def sites(self, ref: ClassRef) -> list[Site] | None:
        """The calls of the objects of a class; None where not all are known."""
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = dict.fromkeys((ref.file.path, *mentions.naming(ref.node.name)))
        if not mentions.is_whole or len(paths) > MOST_FILES or mentions.is_in_configuration(ref.node.name):
            return None
        own = [_own_calls(ref, function) for function in functions_in([ref.node])]
        sites = [site for calls in own if calls is not None for site in calls]
        if None in own:
            return None
        for path in paths:
            file = ref.file if path == ref.file.path else None if path.endswith(".ipynb") else self.project.file(path)
            if file is None or any(
                alias.name == ref.node.name and alias.asname not in (None, alias.name)
                for alias in of_kind(file.tree, ast.alias)
            ):
                return None
            if is_in_tests(self.project, file):
                continue
            for mention in mentions_in(file, ref.node.name):
                if mention.is_in_test or mention.is_demonstration or self._is_of_another(mention.node, file, ref):
                    continue
                match mention.statement:
                    case ast.Assign(
                        targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                        value=ast.Call(func=maker),
                    ) if maker is mention.node and mention.cls is not None and mention.cls in file.tree.body:
                        calls = self._calls_of(ClassRef(file, mention.cls), attribute)
                        if calls is None:
                            return None
                        sites += calls
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=maker)) if _makes(
                        maker, mention.node
                    ):
                        scope = mention.function or file.tree
                        local = _calls_of_variable(scope, name, mention.statement) if mention.cls is None else None
                        if local is None:
                            return None
                        sites += local
                    case _ if _is_name_for_super(mention.node, mention.statement):
                        pass
                    case _ if _is_compared_with(mention.node, mention.statement):
                        pass
                    case _:
                        return None
        return sites

    def is_built(self, ref: ClassRef) -> bool:
        """Whether a variable holds an object of a class somewhere outside of tests."""
        paths = dict.fromkeys((ref.file.path, *self.project.mentions.naming(ref.node.name)))
        files = [self.project.file(path) for path in paths if not path.endswith(".ipynb")]
        return any(
            isinstance(mention.statement, ast.Assign) and not mention.is_in_test
            for file in files
            if file is not None and not is_in_tests(self.project, file)
            for mention in mentions_in(file, ref.node.name)
            if not self._is_of_another(mention.node, file, ref)
        )

    def _calls_of(self, owner: ClassRef, attribute: str) -> list[Site] | None:
        """The calls of what an attribute of a class holds; None where it is used in another way, or outside of the class."""
        paths = self.project.mentions.naming(attribute)
        if len(paths) > MOST_FILES:
            return None
        sites: list[Site] = []
        for path in paths:
            file = (
                owner.file if path == owner.file.path else None if path.endswith(".ipynb") else self.project.file(path)
            )
            if file is None:
                return None
            if file is not owner.file and is_in_tests(self.project, file):
                continue
            for cls in file.tree.body:
                if not isinstance(cls, ast.ClassDef) or cls is owner.node:
                    continue
                if owner.key in {part.key for part in self.project.lineage(ClassRef(file, cls))} and any(
                    part.attr == attribute for part in of_kind(cls, ast.Attribute)
                ):
                    return None
            inside = {id(part) for part in of_kind(owner.node, ast.Attribute)} if file is owner.file else set()
            if any(
                part.attr == attribute and id(part) not in inside and not _is_of_self(part)
                for part in of_kind(file.tree, ast.Attribute)
            ):
                return None
        for function in functions_in([owner.node]):
            parents = parents_in(function)
            for part in of_kind(function, ast.Attribute):
                if part.attr != attribute or not isinstance(part.ctx, ast.Load):
                    continue
                around = parents.get(part)
                if _is_of_self(part) and isinstance(around, ast.Attribute) and around.attr not in _RUNNING:
                    # What its own methods run, they are asked for.
                    continue
                if not (_is_of_self(part) and isinstance(around, ast.Call) and around.func is part):
                    return None
                sites.append(Site(around, function, owner))
        return sites

    def _is_of_another(self, node: ast.AST, place: IndexedFile, ref: ClassRef) -> bool:
        dotted = dotted_name(node) if isinstance(node, ast.expr) else None
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        if not isinstance(symbol, (ClassRef, FunctionRef)):
            return False
        return (symbol.file.path, symbol.node.lineno) != (ref.file.path, ref.node.lineno)


def _own_calls(ref: ClassRef, function: _Function) -> list[Site] | None:
    """The calls by which an object calls itself; None where its `forward` is used in another way."""
    parents = parents_in(function)
    sites = [
        Site(call, function, ref)
        for call in of_kind(function, ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id == "self"
    ]
    for part in of_kind(function, ast.Attribute):
        if part.attr == "forward" and _is_of_self(part):
            around = parents.get(part)
            if not (isinstance(around, ast.Call) and around.func is part):
                return None
            sites.append(Site(around, function, ref))
    return sites


def _makes(maker: ast.expr, node: ast.AST) -> bool:
    """Whether what is called makes an object of the class that is named: `Net(…)`, `Net.load_from_checkpoint(…)`."""
    if isinstance(maker, ast.Attribute) and maker.attr in ("load_from_checkpoint", "from_pretrained"):
        return maker.value is node
    return maker is node


def _calls_of_variable(scope: _Function | ast.Module, name: str, statement: ast.stmt) -> list[Site] | None:
    """The calls of the module that a variable holds; None where it goes elsewhere than to a trainer, which calls the hooks for training."""
    function = scope if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    parents = parents_in(scope)
    sites: list[Site] = []
    for part in of_kind(scope, ast.Name):
        if part.id != name:
            continue
        around = parents.get(part)
        match around:
            case ast.Assign() if part in around.targets:
                if around is not statement and not _is_method_of(around.value, name):
                    return None
            case ast.Call(func=called) if called is part:
                sites.append(Site(around, function, None))
            case ast.Call() if part in around.args and _is_trained(around):
                pass
            case ast.keyword(arg="model") if _is_trained(parents.get(around)):
                pass
            case ast.Attribute(attr=attribute) if attribute not in _RUNNING:
                pass
            case _:
                return None
    return sites


_RUNNING = frozenset({"forward", "__call__", "to_onnx", "to_torchscript", "predict"})
"""Methods that run the `forward` of a module."""


def _is_trained(node: ast.AST | None) -> bool:
    """Whether a node is a call of a trainer: `trainer.fit(model=net)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("fit", "validate", "test")
    )


def _is_method_of(value: ast.expr, name: str) -> bool:
    """Whether a value is what a method of a variable gives: `model.to(device)`."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))):
            return owner == name
    return False


def _is_name_for_super(node: ast.AST, statement: ast.stmt) -> bool:
    return any(
        isinstance(part.func, ast.Name) and part.func.id == "super" and node in part.args
        for part in of_kind(statement, ast.Call)
    )


def _is_compared_with(node: ast.AST, statement: ast.stmt) -> bool:
    """Whether a name is a string that a condition compares another with: `if kind == "Attention":`."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(statement, ast.If)
        and any(isinstance(part, ast.Compare) and node in part.comparators for part in walk(statement.test))
    )


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
