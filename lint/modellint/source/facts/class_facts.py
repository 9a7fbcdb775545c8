"""What is known of one module class once it has been read; the questions that rules ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from modellint.results.diagnostic import Diagnostic, Fix, Severity
from modellint.source.engine.abstract_values import (
    Argument,
    Child,
    Const,
    Container,
    Function,
    Instance,
    Value,
    alternatives,
    leaves,
)
from modellint.source.engine.class_state import Binding, Fill, Initialisation, TooLarge
from modellint.source.engine.entry_methods import changes_attributes
from modellint.source.project import external_name_facts
from modellint.source.project.annotations import is_annotated_module
from modellint.source.project.container_attribute_uses import Uses, class_functions, shows_modules, uses_in
from modellint.source.project.symbols import ClassRef, External, dotted_name
from modellint.source.roles.code_roles import is_criterion, names_a_criterion
from modellint.source.syntax.ast_walk import holds, walk
from modellint.source.syntax.edit_builder import Rewriter

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.source.engine.state_snapshots import ValueStates
    from modellint.source.facts.class_analysis import Reading
    from modellint.source.project.hidden_holders import Holder
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile


class Hidden(NamedTuple):
    """What one live binding of an attribute keeps from PyTorch.

    ``members``: the modules (or parameters) in it that no registered attribute holds; ``mixed``: it also holds what is
    neither; ``stateless``: none of the members has anything to lose; ``certain``: each is known by what made it.
    """

    binding: Binding
    container: Container
    members: tuple[Value, ...]
    mixed: bool
    stateless: bool
    certain: bool

    @property
    def kind(self) -> str:
        """``list``, ``tuple``, ``set`` or ``dict``."""
        return self.container.kind

    @property
    def nested(self) -> bool:
        """Whether there are containers inside the container."""
        return any(isinstance(part, Container) for item in self.container.items for part in alternatives(item))

    @property
    def inner_nodes(self) -> list[ast.AST | None]:
        """What made the containers inside the container, at any depth."""
        found: list[ast.AST | None] = []
        pending = list(self.container.items)
        while pending:
            for part in alternatives(pending.pop()):
                if isinstance(part, Container) and len(found) < 100:
                    found.append(part.node)
                    pending.extend(part.items)
        return found


class Attribute:
    """One attribute of ``self``: its live bindings (those that may stand when the object is built) and all of them."""

    def __init__(self, name: str, owner: ModuleClass, live: tuple[Binding, ...]) -> None:
        self.name = name
        self.owner = owner
        self.live = live
        self._hidden: dict[str, tuple[Hidden, ...]] = {}

    @cached_property
    def bindings(self) -> list[Binding]:
        """Every statement of the methods read that binds it."""
        return self.owner.bindings_of(self.name)

    @cached_property
    def uses(self) -> Uses:
        """How the class's methods use it."""
        return self.owner.uses_of(self.name)

    def hidden(self, kind: str) -> Hidden | None:
        """The first of ``all_hidden``, if there is one."""
        return next(iter(self.all_hidden(kind)), None)

    def all_hidden(self, kind: str) -> tuple[Hidden, ...]:
        """Every live binding that hides a ``module`` or ``parameter`` in a plain container, and the container."""
        if kind not in self._hidden:
            self._hidden[kind] = tuple(self._find_hidden(kind))
        return self._hidden[kind]

    def _find_hidden(self, kind: str) -> Iterator[Hidden]:
        for binding in self.live:
            if binding.form == "register":
                continue
            for part in alternatives(binding.value):
                if isinstance(part, Container) and part.kind != "iterator" and not part.escaped:
                    found = self.owner.hidden_in(part, kind, self)
                    if found is not None:
                        members, mixed = found
                        stateless = all(isinstance(m, Instance) and self.owner.is_stateless(m) for m in members)
                        certain = all(isinstance(m, Instance) and m.kind == kind for m in members)
                        yield Hidden(binding, part, members, mixed, stateless, certain)


class ModuleClass:
    """One class that derives from ``nn.Module``, read: how it is built, and what its methods bind later."""

    def __init__(self, project: Project, ref: ClassRef, built: Reading) -> None:
        self.project = project
        self.ref = ref
        self.file: IndexedFile = ref.file
        self.node = ref.node
        self.name = ref.node.name
        built.build()
        self._apart: Reading | None = None
        if built.interpreter.passed_over:
            # What a base in another file keeps is asked of classes; of code it is seldom worth its time.
            self._apart = built = built.following_bases()
            built.build()
        interpreter = built.interpreter
        self.lineage = interpreter.lineage
        self._states: ValueStates | None = None
        later = list(self._later_methods())
        if later:
            # What else is asked about the class goes on from the same object.
            interpreter, self._states = built.continued()
            try:
                interpreter.run(later)
            except TooLarge:
                self._states.restore()
                raise
        self.initialisation: Initialisation = interpreter.initialisation
        self.all_bindings: list[Binding] = [*interpreter.bindings]
        self.fills: list[Fill] = interpreter.fills
        self.attributes = [Attribute(name, self, live) for name, live in interpreter.attributes.items()]

    def close(self) -> None:
        """Leave the values as building the object left them, and take apart what points back at itself: nothing collects cycles."""
        if self._states is not None:
            self._states.restore()
        if self._apart is not None:
            self._apart.close()
        vars(self).clear()

    def _later_methods(self) -> Iterator[Function]:
        seen = {"__init__"}
        for ref in self.lineage:
            if ref.file is not self.file:
                # What a base in another file does later is reported there.
                continue
            for node in class_functions(ref.node):
                if node.name not in seen:
                    seen.add(node.name)
                    if changes_attributes(node):
                        yield Function(node, ref.file, None, ref)

    def uses_of(self, attribute: str) -> Uses:
        """How the methods of the class and of its bases in the project use an attribute."""
        return uses_in((ref.file.uses(ref.node) for ref in self.lineage), attribute)

    def bindings_of(self, attribute: str) -> list[Binding]:
        """Those of ``all_bindings`` that bind an attribute."""
        return self._bindings.get(attribute, [])

    @cached_property
    def _bindings(self) -> dict[str, list[Binding]]:
        found: dict[str, list[Binding]] = {}
        for binding in self.all_bindings:
            found.setdefault(binding.attribute, []).append(binding)
        return found

    def fills_of(self, container: Container) -> list[Fill]:
        """Those of ``fills`` that add to a container."""
        return self._fills.get(id(container), [])

    @cached_property
    def _fills(self) -> dict[int, list[Fill]]:
        found: dict[int, list[Fill]] = {}
        for fill in self.fills:
            found.setdefault(id(fill.container), []).append(fill)
        return found

    @cached_property
    def rewriter(self) -> Rewriter:
        """Places and names of the class's file."""
        return Rewriter(self.file)

    def finding(
        self,
        rule: Rule,
        statement: ast.stmt,
        message: str,
        *,
        attribute: str | None = None,
        severity: Severity | None = None,
        fix: Fix | None = None,
    ) -> Diagnostic:
        """A finding of ``rule`` at a statement of the class's file."""
        span, fix = self.rewriter.span(statement), self.rewriter.keeping_comments(fix)
        return rule.found(message, span, severity=severity, fix=fix, class_name=self.name, attribute=attribute)

    def place(self, hidden: Hidden) -> ast.stmt | None:
        """The statement at which a hidden attribute is reported: what binds it, or else fills it, in the class's file."""
        if hidden.binding.file.path == self.file.path:
            return hidden.binding.statement
        for fill in self.fills_of(hidden.container):
            if fill.file.path == self.file.path:
                return fill.statement
        return None

    @property
    def holders(self) -> Iterator[Holder]:
        """The attributes that keep a module with something to lose in a function, or in an object of a plain class."""
        from modellint.source.project.hidden_holders import hidden_holders

        if is_criterion(self.project, self.ref):
            return
        for holder in hidden_holders(self.ref, self.project, self._is_stateful_call):
            if not names_a_criterion(holder.made_by):
                yield holder

    def _is_stateful_call(self, file: IndexedFile, call: ast.Call, depth: int = 0) -> bool:
        """Whether a call certainly makes a module that has weights, buffers or a mode."""
        dotted = dotted_name(call.func)
        symbol = self.project.resolve(file, dotted) if dotted is not None and depth < 4 else None
        match symbol:
            case External(name=name) if name in _PLAIN:
                return any(
                    isinstance(part, ast.Call) and self._is_stateful_call(file, part, depth + 1) for part in call.args
                )
            case External(name=name):
                plain = any(word.arg in _WITHOUT_STATE for word in call.keywords)
                return (
                    external_name_facts.is_torch_layer(name)
                    and not external_name_facts.is_stateless(name)
                    and not plain
                )
            case ClassRef() if self.project.is_module(symbol):
                return not self._class_is_stateless(symbol, 0) and not is_criterion(self.project, symbol)
        return False

    @property
    def init(self) -> ast.FunctionDef | None:
        """The class's own ``__init__``."""
        for node in self.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return node
        return None

    @property
    def has_own_metaclass(self) -> bool:
        """Whether a metaclass other than ``ABCMeta`` makes the class, which may call any ``__init__``."""
        return any(
            keyword.arg == "metaclass" and (dotted_name(keyword.value) or "").rpartition(".")[2] != "ABCMeta"
            for keyword in self.node.keywords
        )

    @property
    def may_initialise_itself(self) -> bool:
        """Whether ``__init__`` does nothing, or does what ``super().__init__()`` would by other means."""
        init = self.init
        if init is None:
            return True
        body = [node for node in init.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        if not body or isinstance(body[0], (ast.Return, ast.Raise)) or all(isinstance(n, ast.Pass) for n in body):
            return not any(isinstance(node, ast.Pass) for node in body)
        for node in walk(init):
            match node:
                case ast.Call(func=ast.Attribute(attr="__init__" | "__setstate__" | "__new__")):
                    return True
                case ast.Attribute(value=ast.Name(id="self"), attr="__dict__" | "_modules" | "_parameters"):
                    return True
                case _:
                    pass
        return False

    @staticmethod
    def is_inside(statement: ast.stmt | None, function: ast.FunctionDef) -> bool:
        """Whether a statement stands in a function's body."""
        return statement is not None and holds(function, statement)

    @cached_property
    def derives_directly(self) -> bool:
        """Whether ``nn.Module`` itself is the one base."""
        bases = self.project.bases(self.ref)
        return (
            len(bases) == 1
            and isinstance(bases[0], External)
            and bases[0].name
            in (
                "torch.nn.Module",
                "torch.nn.modules.Module",
                "torch.nn.modules.module.Module",
            )
        )

    @cached_property
    def _registered(self) -> frozenset[int]:
        """Identity of every value that some registered attribute holds."""
        seen: set[int] = set()
        pending: list[Value] = []
        for attribute in self.attributes:
            for binding in attribute.live:
                if binding.form != "dunder":
                    pending.extend(p for p in alternatives(binding.value) if not isinstance(p, Container))
        while pending:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Instance):
                for held in value.held:
                    pending.extend(alternatives(held))
            elif isinstance(value, Child):
                pending.append(value.parent)
        return frozenset(seen)

    def _is_registered(self, value: Value, depth: int = 0) -> bool:
        """Whether something registers a value, or all that a plain `Sequential` holds, or may have."""
        if id(value) in self._registered or getattr(value, "escaped", False):
            return True
        inside = value.held if depth < 4 and isinstance(value, Instance) and value.name in _PLAIN else []
        return bool(inside) and all(self._is_registered(part, depth + 1) for part in inside)

    def hidden_in(self, box: Container, kind: str, attribute: Attribute) -> tuple[tuple[Value, ...], bool] | None:
        """The members of a plain container that only it holds, and whether it holds other things too."""
        members: list[Value] = []
        mixed = False
        if _may_be_reference(box) and is_reference(attribute.uses):
            return None
        for value in leaves(box):
            if (isinstance(value, Const) and value.value is None) or self._is_registered(value):
                mixed = True
            elif self._is(kind, value, box, attribute):
                members.append(value)
            else:
                mixed = True
        return (tuple(members), mixed) if members else None

    def _is(self, kind: str, value: Value, box: Container, attribute: Attribute) -> bool:
        if isinstance(value, Instance):
            if value.kind == kind:
                return True
            if kind == "module" and value.kind == "unresolved":
                # Where another branch registers, the author knows what this one holds.
                return (
                    looks_like_a_layer(value.name)
                    and shows_modules(attribute.uses)
                    and not any(_registers(binding.value) for binding in attribute.live)
                )
        if isinstance(value, Argument) and kind == "module":
            return self._argument_is_module(value, box, attribute)
        return False

    def _argument_is_module(self, value: Argument, box: Container, attribute: Attribute) -> bool:
        annotated = is_annotated_module(self.project, value.file, value.annotation, value.element)
        if not value.element:
            # `[discriminator]` is how one keeps a reference on purpose.
            return annotated and len(box.items) > 1
        uses = attribute.uses
        if annotated:
            return shows_modules(uses) or bool(uses.item_attributes)
        return any(method == "forward" and call.args for method, call in uses.item_calls)

    def compares_by(self, hidden: Hidden) -> bool:
        """Whether a loss or metric hides nothing but criteria that it compares by, which no exported program holds."""
        forward = next(
            (ref.file.members(ref.node)["forward"] for ref in self.lineage if "forward" in ref.file.members(ref.node)),
            None,
        )
        if not isinstance(forward, ast.FunctionDef) or not is_criterion(self.project, self.ref):
            return False
        required = [*forward.args.posonlyargs, *forward.args.args]
        return len(required) - len(forward.args.defaults) > 2 and all(map(self._is_criterion, hidden.members))

    def _is_criterion(self, member: Value) -> bool:
        match member:
            case Argument():
                return True
            case Instance(callee=ClassRef() as ref):
                return self.is_stateless(member) or is_criterion(self.project, ref)
            case Instance(name=name):
                return self.is_stateless(member) or names_a_criterion(name)
        return False

    def is_stateless(self, value: Instance) -> bool:
        """Whether hiding this module loses neither weights nor buffers nor a mode."""
        if value.stateless:
            return True
        if isinstance(value.callee, ClassRef):
            return self._class_is_stateless(value.callee, 0)
        if value.name in _PLAIN:
            return all(isinstance(held, Instance) and self.is_stateless(held) for held in value.held)
        return False

    def _class_is_stateless(self, ref: ClassRef, depth: int) -> bool:
        if depth > 4:
            return False
        for base in self.project.bases(ref):
            match base:
                case External(name="torch.nn.Module" | "torch.nn.modules.Module"):
                    continue
                case External(name=name) if external_name_facts.is_stateless(name):
                    continue
                case ClassRef() if self._class_is_stateless(base, depth + 1):
                    continue
            return False
        for node in walk(ref.node):
            match node:
                case ast.Attribute(
                    attr="training" | "Parameter" | "register_buffer" | "register_parameter" | "add_module"
                ):
                    return False
                case ast.Call(func=func):
                    dotted = dotted_name(func)
                    if dotted is not None and self._makes_state(ref, dotted, depth):
                        return False
                case _:
                    pass
        return True

    def _makes_state(self, ref: ClassRef, dotted: str, depth: int) -> bool:
        if dotted.startswith(("self.", "super")):
            return False
        symbol = self.project.resolve(ref.file, dotted, ref.within)
        match symbol:
            case External(name=name):
                return (
                    bool(external_name_facts.is_module(name)) and not external_name_facts.is_stateless(name)
                ) or name in external_name_facts.PARAMETER_CLASSES
            case ClassRef():
                return symbol.node is not ref.node and not self._class_is_stateless(symbol, depth + 1)
        return symbol is None and dotted[:1].isupper()


_WITHOUT_STATE = frozenset({"affine", "elementwise_affine", "track_running_stats"})
"""Arguments that may leave a normalization without state."""
_PLAIN = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList"})
"""Modules that have no state but that of what they hold."""


def _may_be_reference(box: Container) -> bool:
    """Whether a container is `[module]` around a local name."""
    node = box.node
    return (
        isinstance(node, ast.List)
        and len(node.elts) == 1
        and isinstance(node.elts[0], ast.Name)
        and len(box.items) == 1
    )


def is_reference(uses: Uses) -> bool:
    """Whether such a container is read as `self.x[0]` only: a module hidden from PyTorch on purpose."""
    return uses.indexed and not (uses.iterated or uses.methods)


def _registers(value: Value) -> bool:
    return any(isinstance(part, Instance) and part.kind == "module" for part in alternatives(value))


_NOT_LAYERS = (
    "Config",
    "Metric",
    "Accuracy",
    "Dataset",
    "Sampler",
    "Tokenizer",
    "Processor",
    "Transform",
    "Transforms",
    "Optimizer",
    "Scheduler",
    "Callback",
    "Logger",
    "Args",
    "Path",
)


def looks_like_a_layer(name: str) -> bool:
    """Whether the name of what made an object is a class's, or a layer factory's, by the field's conventions."""
    last = name.rpartition(".")[2].rpartition(":")[2]
    if last.endswith(_NOT_LAYERS) or not last:
        return False
    if last[:1].isupper() and not last.isupper():
        return True
    words = last.lower().split("_")
    return any(word in _LAYER_WORDS for word in words)


_LAYER_WORDS = frozenset(
    {"layer", "layers", "block", "blocks", "conv", "linear", "norm", "attn", "attention", "mlp", "encoder", "decoder"}
    | {"embed", "embedding", "module", "net", "head", "cell", "rnn", "lstm", "gru"}
)
