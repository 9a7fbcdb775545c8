"""References: whether all places of the project that name a class or function are of one kind, such as modules, measures or tests."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.external_name_facts import OF_LIBRARIES
from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_in_tests, is_path_of_measures, measures
from modellint.source.roles.dead_code.dynamic_lookup import may_be_looked_up
from modellint.source.roles.dead_code.unused_definitions import Uses
from modellint.source.roles.training_parts import attributes_of_forward, attributes_of_training, is_training_hook
from modellint.source.roles.uninterpreted_class import UnreadClass
from modellint.source.syntax.ast_walk import of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
DEEPEST = 40
"""How many users of users are looked at: more than there are, so that the answer does not depend on who is asked first."""
_MOST_FILES = 24
"""What more files than these name is taken for a part of models."""
_Judge: TypeAlias = Callable[[Mention, IndexedFile], bool]
_Counts: TypeAlias = Callable[[Mention], bool]


class References:
    """The places of a project that name its classes and functions."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.uses = Uses(project)

    def all_match(
        self, node: ast.ClassDef | _Function, file: IndexedFile, depth: int, off: _Judge, counts: _Counts = bool
    ) -> bool:
        """Whether all mentions of a class or function are off the path, and some; what tests say is no word of it."""
        if depth > DEEPEST:
            return False
        found = False
        for mention in mentions_in(file, node.name):
            if node in mention.around or mention.is_in_test or self.uses.is_only_a_word(mention, file):
                continue
            if isinstance(node, ast.ClassDef) and self.uses.is_shown(mention, file):
                continue
            if off(mention, file):
                found = found or counts(mention)
            elif not self.uses.is_in_unused(mention, file):
                return False
        vars(node)["_by_users"] = True
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = [path for path in mentions.naming(node.name) if path != file.path]
        if not mentions.is_whole or len(paths) > _MOST_FILES:
            return False
        for path in paths:
            other = self.project.file(path) if not path.endswith(".ipynb") else None
            if other is None:
                return False
            if is_in_tests(self.project, other):
                continue
            for mention in mentions_in(other, node.name):
                if mention.is_in_test or self._is_of_another(mention, other, node, file):
                    continue
                if self.uses.is_only_a_word(mention, other):
                    continue
                if off(mention, other):
                    found = found or counts(mention)
                elif not self.uses.is_in_unused(mention, other):
                    return False
        return found

    def _is_of_another(
        self, mention: Mention, place: IndexedFile, node: ast.ClassDef | _Function, file: IndexedFile
    ) -> bool:
        """Whether what is named is another class or function of the same name, or a variable of a function."""
        function = mention.function
        if (
            isinstance(mention.node, ast.Name)
            and function is not None
            and mention.statement is not function
            and mention.node.id in once(function, "_variables", _variables)
        ):
            return True
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        if isinstance(symbol, External):
            # Any other name may be the project's own package, as it is installed.
            return symbol.name.partition(".")[0] in OF_LIBRARIES
        if not isinstance(symbol, (ClassRef, FunctionRef)):
            return False
        return (symbol.file.path, symbol.node.lineno) != (file.path, node.lineno)

    def touch(self, node: ast.AST) -> None:
        """Note that an answer depends on all files, where what was told of a class or function before came of who names it."""
        if vars(node).get("_by_users"):
            self.project.touch_tree()

    def is_named_by_modules(self, ref: ClassRef) -> bool:
        """Whether a module may hold objects of a class: another class that is one names it, or some places that name it are not known."""
        vars(ref.node)["_by_users"] = True
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = [path for path in mentions.naming(ref.node.name) if path != ref.file.path]
        files = [
            ref.file,
            *(None if path.endswith(".ipynb") else self.project.file(path) for path in paths[:_MOST_FILES]),
        ]
        if ref.within or not mentions.is_whole or len(paths) > _MOST_FILES or None in files:
            return True
        return any(
            mention.cls is not None
            and mention.cls is not ref.node
            and self.project.is_module(ClassRef(file, mention.cls)) is not False
            for file in files
            if file is not None
            for mention in mentions_in(file, ref.node.name)
        )

    def is_named_by_tests_only(self, ref: ClassRef) -> bool:
        """Whether nothing but itself and tests names a class, so that no module computes what it is given."""
        vars(ref.node)["_by_users"] = True
        self.project.touch_tree()
        mentions = self.project.mentions
        if ref.within or ref.node.decorator_list or not mentions.is_whole:
            return False
        if any(
            ref.node not in mention.around and not mention.is_in_test
            for mention in mentions_in(ref.file, ref.node.name)
        ):
            return False
        others = [self.project.file(path) for path in mentions.naming(ref.node.name) if path != ref.file.path]
        return all(other is not None and is_in_tests(self.project, other) for other in others)

    def is_only_a_part(self, ref: ClassRef) -> bool:
        """Whether nothing but other modules builds a class, and something does; themselves, or by functions that only they call."""

        def builds(mention: Mention, file: IndexedFile) -> bool:
            owner = mention.cls
            if owner is None:
                return mention.is_demonstration or self._makes_only_parts(mention, file, 1)
            return owner in file.tree.body and self.project.is_module(ClassRef(file, owner)) is True

        def counts(mention: Mention) -> bool:
            return not mention.is_demonstration

        return not ref.within and self.all_match(ref.node, ref.file, 0, builds, counts)

    def _makes_only_parts(self, mention: Mention, file: IndexedFile, depth: int) -> bool:
        """Whether a function builds what is mentioned and gives it back, and nothing but modules calls it, for attributes that they run."""
        function = mention.function
        if function is None or function not in file.tree.body or function.decorator_list or not _gives_back(mention):
            return False

        def calls(user: Mention, other: IndexedFile) -> bool:
            owner = user.cls
            if owner is None:
                return user.is_demonstration or self._makes_only_parts(user, other, depth + 1)
            held = attribute_that_holds(user)
            cls = UnreadClass(self.project, ClassRef(other, owner))
            return (
                held is not None
                and owner in other.tree.body
                and self.project.is_module(cls.ref) is True
                and not any(is_training_hook(method.node) for method in cls.methods)
                and held in attributes_of_forward(cls.methods)
            )

        return self.all_match(function, file, depth, calls, lambda user: not user.is_demonstration)

    def is_part_of_training(self, ref: ClassRef) -> bool:
        """Whether all that builds a class are modules that hold it for training: `forward` runs it under `if self.training:`."""

        def trains(mention: Mention, file: IndexedFile) -> bool:
            owner = mention.cls
            attribute = attribute_that_holds(mention)
            return (
                owner is not None
                and owner in file.tree.body
                and attribute is not None
                and attribute in attributes_of_training(UnreadClass(self.project, ClassRef(file, owner)).methods)
            )

        return not ref.within and not ref.node.decorator_list and self.all_match(ref.node, ref.file, 0, trains)

    def is_of_a_measure(self, ref: ClassRef) -> bool:
        """Whether a class stands among measures of quality, or nothing else uses it: it is neither trained nor exported."""
        if measures(self.project, ref.file):
            return True
        self.touch(ref.node)
        return once(ref.node, "_for_measures", lambda _: self._is_used_by_measures(ref))

    def _is_used_by_measures(self, ref: ClassRef) -> bool:
        vars(ref.node)["_by_users"] = True
        self.project.touch_tree()
        # Only where one of them names it: to look through all files for each class takes time.
        mentions = self.project.mentions
        files = mentions.code_files("measures", lambda path: is_path_of_measures(self.project, path))
        if not any(mentions.holds(path, ref.node.name) for path in files):
            return False
        return not may_be_looked_up(self.project, ref) and self.all_match(
            ref.node, ref.file, 0, lambda _, file: measures(self.project, file)
        )


def _variables(function: _Function) -> frozenset[str]:
    """The variables that the statements of a function bind, in its own scope: what is named so in it is no name of the file."""
    bound: set[str] = set()
    others: set[str] = set()
    pending: list[ast.AST] = [*function.body]
    while pending:
        node = pending.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                others.update(names)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                others.update(alias.asname or alias.name for alias in aliases)
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)
    return frozenset(bound - others)


_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def _gives_back(mention: Mention) -> bool:
    """Whether a function gives back what a mention builds: `return Net()`, `net = Net()` and `return net`."""
    match mention.statement:
        case ast.Return(value=ast.Call(func=called)):
            return called is mention.node
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)) if mention.function is not None:
            results = [part.value for part in of_kind(mention.function, ast.Return)]
            return called is mention.node and any(isinstance(part, ast.Name) and part.id == name for part in results)
    return False


def attribute_that_holds(mention: Mention) -> str | None:
    """The attribute of `self` that is bound to what a mention builds: `self.loss = Loss()`."""
    match mention.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            # `self.loss = Loss() if loss is None else loss`
            values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            return name if any(isinstance(part, ast.Call) and part.func is mention.node for part in values) else None
    return None
