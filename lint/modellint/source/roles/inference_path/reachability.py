"""Reachability: whether a class or function is reached when an exported model runs, told by who builds and calls it in the project.

A finding about what an exported model runs is worth knowing only where nothing but training, evaluation or a test runs the code. Nothing
is told by silence: code of which nobody is seen to run it counts as inference.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.external_name_facts import OF_LIBRARIES
from modellint.source.project.mentions import Mention
from modellint.source.project.symbols import ClassRef, External, IndexedFile, dotted_name
from modellint.source.roles.code_roles import (
    builds_no_model,
    gives_a_loss,
    gives_losses,
    is_in_tests,
    is_never_exported,
    measures,
)
from modellint.source.roles.dead_code.always_raising_code import cannot_be_run
from modellint.source.roles.dead_code.dynamic_lookup import may_be_looked_up
from modellint.source.roles.forward_call_sites.call_arguments import is_left_out
from modellint.source.roles.inference_path.references import DEEPEST, References, attribute_that_holds
from modellint.source.roles.model_evaluation_code import counts_up, is_only_compared, is_only_run
from modellint.source.roles.training_code import (
    asks_for_answers,
    changes_data,
    follows_gradients,
    infers_elsewhere,
    is_for_training,
    is_loss_function,
    is_told_answers,
    trains,
    trains_as_script,
)
from modellint.source.roles.training_parts import (
    attributes_of_forward,
    attributes_of_training,
    methods_of_forward,
    methods_of_training,
    runs_without_gradients,
)
from modellint.source.roles.unexportable_code import (
    draws_by_itself,
    imports_a_runtime,
    is_for_samples,
    knows_a_runtime,
    leaves_by_chance,
    only_raises,
    serves,
    takes_arrays,
    takes_module,
)
from modellint.source.roles.uninterpreted_class import UnreadClass
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_NO_WEIGHTS = re.compile(
    r"torch\.nn\.(?:\w*Loss|ReLU6?|Sigmoid|Tanh|Softmax|LogSoftmax|Identity|Flatten|\w*Pool[123]d|(?:functional|modules\.utils)\..*)"
)
_PARALLEL = re.compile(r"torch\.nn\.(?:parallel\.)?(?:\w+\.)?(?:Distributed)?DataParallel")
"""What spreads the training of a model over devices."""


def is_off_path(project: Project, ref: ClassRef) -> bool:
    """Whether the `forward` of a class is known to be none that an exported model runs."""
    reachability = Reachability(project)
    return is_in_tests(project, ref.file) or reachability.place_is_off(
        ref, UnreadClass(project, ref).method("forward"), 0
    )


class Reachability:
    """Which classes and functions of a project an exported model does not reach: these are off the path of inference."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.references = References(project)

    def place_is_off(self, ref: ClassRef, function: _Function | None, depth: int) -> bool:
        """Whether a place in a class is: the `forward` of some gives a loss, and another method, without gradients, what they are for."""
        cls = UnreadClass(self.project, ref)
        if once(ref.node, "_gives_a_loss", lambda _: gives_a_loss(cls)):
            return function is None or function.name not in runs_without_gradients(cls.methods)
        if function is not None and self._method_is_off(cls, function):
            return True
        return self._class_is_off(ref, depth)

    @staticmethod
    def _forward_trains(cls: UnreadClass) -> bool:
        """Whether the `forward` of a class is there to train it, as another method answers, or it gives losses back."""

        def look(_: ast.ClassDef) -> bool:
            return gives_losses(cls) or is_told_answers(cls) or infers_elsewhere(cls)

        return once(cls.ref.node, "_forward_trains", look)

    def _method_is_off(self, cls: UnreadClass, function: _Function) -> bool:
        """Whether what runs a method of a class is for training alone, as far as the class tells."""
        own = methods_of_forward(cls.methods) if self._forward_trains(cls) else ()
        if function.name in own:
            return True
        if function.name in ("__init__", "forward"):
            return False
        is_module = self.project.is_module(cls.ref) is not False
        if function.name not in methods_of_training(cls.methods, is_loss_function if is_module else is_for_training):
            return False
        if function.name.startswith("_"):
            return True
        self.project.touch_tree()
        mentions = self.project.mentions
        naming = set(mentions.naming(function.name)) & set(mentions.naming(cls.ref.node.name))
        return mentions.is_whole and naming <= {cls.file.path}

    def _class_is_off(self, ref: ClassRef, depth: int) -> bool:
        known: bool | None = vars(ref.node).get("_off_path")
        if known is None:
            vars(ref.node)["_off_path"] = False
            cls = UnreadClass(self.project, ref)
            known = self._says_so(cls) or self._is_used_off(cls, depth)
            vars(ref.node)["_off_path"] = known
        else:
            self.references.touch(ref.node)
        return known

    def _says_so(self, cls: UnreadClass) -> bool:
        """Whether a class itself tells that it is not exported."""
        if is_never_exported(cls) or counts_up(cls):
            return True
        forward = cls.method("forward")
        if forward is not None and (
            takes_module(forward) or (takes_arrays(forward) and self.references.is_named_by_tests_only(cls.ref))
        ):
            return True
        if any(imports_a_runtime(method.node) for method in cls.methods if method.node.name in ("__init__", "forward")):
            return True
        if (forward is None or only_raises(forward)) and any(trains(method.node) for method in cls.methods):
            return cls.project.is_module(cls.ref) is True
        if any(
            isinstance(base, External) and _PARALLEL.fullmatch(base.name)
            for ref in cls.lineage
            for base in self.project.bases(ref)
        ):
            return True
        if forward is not None and leaves_by_chance(forward):
            return self.has_no_weights(cls) and not self.references.is_named_by_modules(cls.ref)
        return forward is not None and asks_for_answers(forward) and self.has_no_weights(cls)

    def has_no_weights(self, cls: UnreadClass, depth: int = 0, *, wraps: bool = False) -> bool:
        """Whether a module holds nothing that is trained, as far as its code tells; what it is given may be, if it ``wraps`` that."""
        if any(
            not isinstance(base, (ClassRef, External))
            or (isinstance(base, External) and base.name != "torch.nn.Module")
            for ref in cls.lineage
            for base in self.project.bases(ref)
        ):
            return False
        called = {
            call.func.attr
            for method in cls.methods
            if method.node.name != "__init__"
            for call in of_kind(method.node, ast.Call)
            if isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "self"
        }
        for method in cls.methods:
            given = {one.arg for one in (*method.node.args.args, *method.node.args.kwonlyargs)} - {"self"}
            for assignment in of_kind(method.node, ast.Assign):
                names = {target.attr for target in assignment.targets if isinstance(target, ast.Attribute)}
                if (
                    not wraps
                    and names & called
                    and isinstance(assignment.value, ast.Name)
                    and assignment.value.id in given
                ):
                    return False
            for call in of_kind(method.node, ast.Call):
                if called_name(call) == "register_parameter":
                    return False
                dotted = dotted_name(call.func)
                symbol = self.project.resolve(cls.file, dotted) if dotted and not dotted.startswith("self.") else None
                if isinstance(symbol, External):
                    if symbol.name.startswith("torch.nn.") and not _NO_WEIGHTS.fullmatch(symbol.name):
                        return False
                    # A class of the project itself that no import leads to here: a program puts its own folder on the path.
                    first, _, last = symbol.name.partition(".")
                    if first not in OF_LIBRARIES and last.rpartition(".")[2][:1].isupper():
                        return False
                elif (
                    isinstance(symbol, ClassRef)
                    and self.project.is_module(symbol) is not False
                    and (depth > DEEPEST or not self.has_no_weights(UnreadClass(self.project, symbol), depth + 1))
                ):
                    return False
        return True

    def _is_used_off(self, cls: UnreadClass, depth: int) -> bool:
        """Whether all that names a class in the project is off the path of inference, and something does."""
        if cls.ref.within or may_be_looked_up(self.project, cls.ref):
            return False
        forward = cls.method("forward")
        is_quiet = forward is not None and any("no_grad" in ast.unparse(one) for one in forward.decorator_list)

        def off(mention: Mention, file: IndexedFile) -> bool:
            owner = mention.cls
            if owner is not None:
                if owner is not mention.around[0]:
                    return False
                user = ClassRef(file, owner)
                if cannot_be_run(self.project, user):
                    return True
                held = attribute_that_holds(mention)
                other = UnreadClass(self.project, user)
                if held is not None and (
                    held in attributes_of_training(other.methods)
                    or (self._forward_trains(other) and held in attributes_of_forward(other.methods))
                    or self._is_only_run_if_asked(other, held)
                ):
                    return True
                if self.place_is_off(user, mention.function, depth + 1):
                    return True
                if self.project.is_module(user) is not False:
                    return False
            function = mention.function
            if serves(file) or measures(self.project, file) or is_for_samples(self.project, mention, file):
                return True
            statement = mention.statement
            if changes_data(statement) and self.has_no_weights(cls):
                return True
            if isinstance(statement, ast.ClassDef) and mention.node in statement.bases and statement in file.tree.body:
                # What nothing else uses is there for what derives from it.
                return self._class_is_off(ClassRef(file, statement), depth + 1)
            if function is None:
                return _is_built_by(mention) and trains_as_script(file) and self.has_no_weights(cls)
            if (is_quiet or trains(function) or follows_gradients(function)) and not isinstance(
                mention.statement, ast.ClassDef
            ):
                return self.has_no_weights(cls)
            if is_only_compared(self.project, mention, file) and self.has_no_weights(cls, wraps=True):
                return True
            # What works with what another runtime gave, or on inputs by chance, is no program of its own.
            stands_by = knows_a_runtime(file) or (forward is not None and draws_by_itself(forward))
            if stands_by and is_only_run(self.project, mention, file) and self.has_no_weights(cls):
                return True
            return owner is None and self.function_is_off(file, function, depth + 1)

        return self.references.all_match(cls.ref.node, cls.file, depth, off)

    def _is_only_run_if_asked(self, cls: UnreadClass, attribute: str) -> bool:
        """Whether all that reads an attribute of a class, but its constructor, stands under an argument that no call gives."""
        reads = [
            (ref, function, part.lineno)
            for ref in cls.lineage
            for function in functions_in([ref.node])
            if function.name != "__init__"
            for part in of_kind(function, ast.Attribute)
            if part.attr == attribute
        ]
        return bool(reads) and all(is_left_out(self.project, *read) for read in reads)

    def function_is_off(self, file: IndexedFile, node: _Function, depth: int) -> bool:
        """Whether a function computes a loss, or everything that calls it is off the path, and something does."""
        known: bool | None = vars(node).get("_off_path")
        if known is not None:
            self.references.touch(node)
            return known
        vars(node)["_off_path"] = False

        def off(mention: Mention, other: IndexedFile) -> bool:
            owner = mention.cls
            if mention.function is not None and builds_no_model(mention.function):
                return True
            if owner is not None:
                inside = owner is mention.around[0]
                return inside and self.place_is_off(ClassRef(other, owner), mention.function, depth + 1)
            function = mention.function
            if function is None:
                return False
            return trains(function) or self.function_is_off(other, function, depth + 1)

        answer = is_loss_function(node) or (
            node in file.tree.body and not node.decorator_list and self.references.all_match(node, file, depth, off)
        )
        vars(node)["_off_path"] = answer
        return answer


def _is_built_by(mention: Mention) -> bool:
    """Whether a statement binds or uses what it builds of what it mentions: `blur = Blur()`."""
    return isinstance(mention.statement, (ast.Assign, ast.Expr)) and any(
        isinstance(part, ast.Call) and part.func is mention.node for part in ast.walk(mention.statement)
    )
