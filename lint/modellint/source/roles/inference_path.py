"""Path of inference: what an exported model's `forward` reaches, told by who builds and calls what in the project.

A finding about what an exported model runs is worth knowing only where nothing but training, evaluation or a test runs the code. Nothing
is told by silence: code of which nobody is seen to run it counts as inference.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from modellint.results.diagnostic import Applicability, Diagnostic, Severity
from modellint.source.project.external_name_facts import OF_LIBRARIES
from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import (
    builds_no_model,
    gives_a_loss,
    gives_losses,
    gives_only_a_loss,
    is_in_tests,
    is_never_exported,
    is_path_of_measures,
    measures,
)
from modellint.source.roles.collectives import runs_with_collectives
from modellint.source.roles.constant_variables import is_ruled_out
from modellint.source.roles.constructor_flags.flag_conditions import is_never_built, is_switched_off
from modellint.source.roles.dead_code.always_raising_code import asks_in_vain_before, cannot_be_run, fails_before
from modellint.source.roles.dead_code.dynamic_lookup import may_be_looked_up
from modellint.source.roles.dead_code.unused_definitions import Uses
from modellint.source.roles.files.forward_hooks import registers_no_hook
from modellint.source.roles.files.run_records import is_record_of_a_run
from modellint.source.roles.forward_call_sites.call_arguments import is_left_out, is_never_switched_on
from modellint.source.roles.forward_call_sites.call_sites import is_only_trained
from modellint.source.roles.method_side_effects import (
    attributes_changed,
    attributes_remade,
    binds_first,
    keeps_nothing,
    makes_by_itself,
)
from modellint.source.roles.model_evaluation_code import (
    compares_with_truth,
    counts_up,
    gives_nothing_in_evaluation,
    is_only_compared,
    is_only_run,
)
from modellint.source.roles.parent_modules import is_called_where_it_is_built
from modellint.source.roles.training_code import (
    asks_for_answers,
    changes_data,
    follows_gradients,
    infers_elsewhere,
    is_about_a_loss,
    is_for_training,
    is_loss_function,
    is_told_answers,
    is_training_script,
    optimizes_by_hand,
    runs_to_train,
    trains,
    trains_as_script,
)
from modellint.source.roles.training_parts import (
    attributes_of_forward,
    attributes_of_training,
    is_training_hook,
    methods_of_forward,
    methods_of_training,
    runs_without_gradients,
)
from modellint.source.roles.uncalled_forward import is_run_by_parts
from modellint.source.roles.uncalled_methods import is_unnamed
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
    takes_samples,
)
from modellint.source.roles.unexported_branches import is_left_out_of_exports
from modellint.source.roles.uninterpreted_class import UnreadClass
from modellint.source.syntax.ast_walk import called_name, functions_in, given_to, of_kind, once

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 40
"""How many users of users are looked at: more than there are, so that the answer does not depend on who is asked first."""
_MOST_FILES = 24
"""What more files than these name is taken for a part of models."""
_NO_WEIGHTS = re.compile(
    r"torch\.nn\.(?:\w*Loss|ReLU6?|Sigmoid|Tanh|Softmax|LogSoftmax|Identity|Flatten|\w*Pool[123]d|(?:functional|modules\.utils)\..*)"
)
_DICT = re.compile(r"(?:\w+\.)*(?:[Dd]ict|Mapping|MutableMapping)\b")
_PARALLEL = re.compile(r"torch\.nn\.(?:parallel\.)?(?:\w+\.)?(?:Distributed)?DataParallel")
"""What spreads the training of a model over devices."""

_Judge: TypeAlias = Callable[[Mention, IndexedFile], bool]
_Counts: TypeAlias = Callable[[Mention], bool]


def weighed(
    findings: list[Diagnostic], file: IndexedFile, ref: ClassRef | None, project: Project, rules: Mapping[str, Rule]
) -> list[Diagnostic]:
    """Findings of one reading, with those off the path of inference made information; of their fixes safe ones stay."""
    paths = _Paths(project)
    return [
        _as_information(finding, rules[finding.code])
        if _may_weigh_less(finding) and paths.is_off(finding, rules.get(finding.code), file, ref)
        else finding
        for finding in findings
    ]


def is_off_path(project: Project, ref: ClassRef) -> bool:
    """Whether the `forward` of a class is known to be none that an exported model runs."""
    paths = _Paths(project)
    return is_in_tests(project, ref.file) or paths._place_is_off(ref, UnreadClass(project, ref).method("forward"), 0)


def _may_weigh_less(finding: Diagnostic) -> bool:
    """Whether a finding is more than information, or has a fix that only the path of inference asks for."""
    return finding.severity is not Severity.INFO or _is_unsafe(finding)


def _is_unsafe(finding: Diagnostic) -> bool:
    return finding.fix is not None and finding.fix.applicability is Applicability.UNSAFE


def _as_information(finding: Diagnostic, rule: Rule) -> Diagnostic:
    if _is_unsafe(finding):
        finding = finding._replace(fix=None, help=finding.help or rule.advice or None)
    return finding._replace(severity=Severity.INFO)


def _attributes_in(node: ast.AST) -> set[str]:
    return {part.attr for part in of_kind(node, ast.Attribute)}


class _Paths:
    """The roles of the classes and functions of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.uses = Uses(project)
        self._criteria: dict[ast.ClassDef, bool] = {}

    def is_off(self, finding: Diagnostic, rule: Rule | None, file: IndexedFile, ref: ClassRef | None) -> bool:
        """Whether a finding is about what an exported model does not run."""
        if rule is None:
            return False
        # Nobody exports what a test defines, or trains it to be kept: whatever a rule is about.
        if is_in_tests(self.project, file) or is_record_of_a_run(self.project, file):
            return True
        if (
            rule.answered_by
            and finding.attribute is not None
            and self._is_named_to(rule.answered_by, finding.attribute)
        ):
            return True
        # That a call raises is what FLW008 itself tells.
        if (
            ref is not None
            and rule.code != "FLW008"
            and (rule.only_inference or rule.code.startswith("REG"))
            and cannot_be_run(self.project, ref)
        ):
            return True
        if not rule.only_inference:
            # Nobody trains what an application does not use, either.
            if self._is_unused(finding, file, ref, self.uses.is_left_behind):
                return True
            if rule.code == "MOD002" and ref is not None:
                if not self.uses.may_be_installed() and self._is_unused(finding, file, ref):
                    return True
                return self._is_dropped_for_a_loss(finding, file, ref)
            if not rule.code.startswith("REG"):
                return False
            if rule.code == "REG006" and finding.attribute is not None and self._is_moved(finding.attribute):
                return True
            if ref is None:
                return False
            # That a module in a plain list is trained by nobody is worth an error wherever it stands; a tensor that stays behind is not.
            if rule.code == "REG006" and not self.uses.may_be_installed():
                if self._is_unused(finding, file, ref):
                    return True
                if finding.attribute is not None and is_called_where_it_is_built(self.project, ref, finding.attribute):
                    return True
            around = _around(file.tree, finding.span.row) if finding.span is not None else []
            if len(around) == 2 and isinstance(around[0], ast.ClassDef) and finding.span is not None:
                owner = ClassRef(file, around[0])
                if is_never_built(self.project, owner, around[1], finding.span.row):
                    return True
            if finding.attribute is not None and rule.code in ("REG001", "REG006"):
                if ref.node not in self._criteria:
                    self._criteria[ref.node] = self._is_constant_criterion(ref)
                makes = rule.code == "REG006" or makes_by_itself(ref.node, finding.attribute)
                if makes and self._criteria[ref.node]:
                    return True
                if (
                    rule.code == "REG006"
                    and finding.attribute not in once(ref.node, "_changed", lambda _: self._changed(ref))
                    and is_off_path(self.project, ref)
                ):
                    return True
            if self._is_of_a_measure(ref):
                return True
            return once(ref.node, "_optimizes_by_hand", optimizes_by_hand) or (
                rule.code == "REG006" and self._is_part_of_training(ref)
            )
        if is_about_a_loss(finding, file):
            return True
        # That hooks do not run is so of a module for whoever takes it, too.
        if rule.code != "FLW007" and self._is_unused(finding, file, ref):
            return True
        if rule.code == "FLW007" and registers_no_hook(self.project, file):
            return True
        if rule.code.startswith("DEV") and is_training_script(file):
            return True
        around = _around(file.tree, finding.span.row) if finding.span is not None else []
        functions = [part for part in around if not isinstance(part, ast.ClassDef)]
        if any(
            is_training_hook(part)
            or is_loss_function(part)
            or takes_samples(part, rule.code)
            or compares_with_truth(part)
            for part in functions
        ):
            return True
        if (
            functions
            and finding.span is not None
            and (
                self._is_ruled_out(file, around, finding.span.row)
                or runs_with_collectives(self.project, file, _owner_of(file, around), functions[-1], finding.span.row)
                or (rule.code != "FLW008" and asks_in_vain_before(self.project, file, functions[-1], finding.span.row))
            )
        ):
            return True
        if len(around) > 1 and isinstance(around[0], ast.ClassDef):
            assert finding.span is not None
            owner = ClassRef(file, around[0])
            if is_switched_off(self.project, owner, around[1], finding.span.row):
                return True
            if not isinstance(around[1], ast.ClassDef) and is_unnamed(self.project, owner, around[1]):
                return True
            if not isinstance(around[1], ast.ClassDef) and is_left_out(
                self.project, owner, around[1], finding.span.row
            ):
                return True
            if not isinstance(around[1], ast.ClassDef) and is_left_out_of_exports(
                self.project, owner, around[1], finding.span.row
            ):
                return True
            if (
                rule.code == "MUT005"
                and not isinstance(around[1], ast.ClassDef)
                and is_never_switched_on(self.project, owner, around[1], finding.span.row)
            ):
                return True
            if (
                rule.code != "FLW008"
                and not isinstance(around[1], ast.ClassDef)
                and fails_before(self.project, owner, around[1])
            ):
                return True
            if around[1].name == "forward" and len(around) == 2 and is_run_by_parts(self.project, owner):
                return True
            if (
                rule.code == "FLW007"
                and around[1].name == "forward"
                and self._is_called_elsewhere(owner, around[1], finding)
            ):
                return True
            # Its parts may be exported all the same.
            cls = UnreadClass(self.project, owner)
            forward = cls.method("forward")
            if forward is not None and (
                once(forward, "_gives_nothing", gives_nothing_in_evaluation)
                or around[1].name in once(owner.node, "_training_loop", lambda _: runs_to_train(cls))
            ):
                return True
        # What a class runs may stand elsewhere.
        if ref is not None and (not around or ref.node in around):
            if rule.code.startswith("SIG") and (self._takes_a_dict(ref) or self._is_only_a_part(ref)):
                return True
            # What other modules hand it is no input of the program.
            if rule.code == "MUT007" and self._is_only_a_part(ref):
                return True
            return self._place_is_off(ref, functions[0] if functions else None, 0)
        if not around:
            return False
        if isinstance(around[0], ast.ClassDef):
            return self._place_is_off(ClassRef(file, around[0]), functions[0] if functions else None, 0)
        # A script that loads a checkpoint is run wherever it is called from, unless it trains.
        if rule.code.startswith("DEV"):
            return any(map(trains, functions))
        return self._function_is_off(file, around[0], 0)

    def _is_ruled_out(self, file: IndexedFile, around: list[ast.ClassDef | _Function], row: int) -> bool:
        """Whether a row of the innermost function is under a condition that none of the constants fulfils that a variable may be."""
        function = around[-1]
        if isinstance(function, ast.ClassDef):
            return False
        return is_ruled_out(self.project, file, _owner_of(file, around), function, row)

    def _is_called_elsewhere(self, owner: ClassRef, forward: ast.AST, finding: Diagnostic) -> bool:
        """Whether what trains a module calls its parts themselves, and nothing in the project the `forward` that calls theirs by name."""
        row = finding.span.row if finding.span is not None else 0
        parts = {
            ast.unparse(call.func.value)
            for call in of_kind(forward, ast.Call)
            if call.lineno == row and isinstance(call.func, ast.Attribute) and call.func.attr == "forward"
        }
        called = {
            ast.unparse(call.func)
            for function in functions_in([owner.node])
            if function is not forward
            for call in of_kind(function, ast.Call)
        }
        return bool(parts) and parts <= called and is_only_trained(self.project, owner)

    def _is_unused(
        self,
        finding: Diagnostic,
        file: IndexedFile,
        ref: ClassRef | None,
        asked: Callable[[IndexedFile, ast.stmt], bool] | None = None,
    ) -> bool:
        """Whether nothing in the project uses the class or function that a finding is in, or the class that was read."""
        asked = asked or self.uses.is_unused
        around = _around(file.tree, finding.span.row) if finding.span is not None else []
        if around:
            return asked(file, around[0])
        return ref is not None and not ref.within and asked(ref.file, ref.node)

    def _place_is_off(self, ref: ClassRef, function: _Function | None, depth: int) -> bool:
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
            self._touch(ref.node)
        return known

    def _is_named_to(self, converter: str, attribute: str) -> bool:
        """Whether the project names an attribute to a class of the converter's: ``ct.StateType(…, name="model.cache")``."""
        self.project.touch_tree()
        mentions = self.project.mentions
        both = [path for path in mentions.naming(converter) if mentions.holds(path, attribute)]
        files = (self.project.file(path) for path in both if not path.endswith(".ipynb"))
        return any(
            isinstance(part, ast.Constant) and str(part.value).rpartition(".")[2] == attribute
            for file in files
            if file is not None
            for call in ast.walk(file.tree)
            if isinstance(call, ast.Call) and called_name(call) == converter
            for part in given_to(call)
        )

    def _is_moved(self, attribute: str) -> bool:
        """Whether an `_apply` of the project, by which PyTorch moves modules, moves an attribute: ``head.stride = fn(head.stride)``."""
        self.project.touch_tree()
        mentions = self.project.mentions
        both = [path for path in mentions.naming("_apply") if mentions.holds(path, attribute)]
        files = (self.project.file(path) for path in both if not path.endswith(".ipynb"))
        return any(
            isinstance(target, ast.Attribute) and target.attr == attribute and attribute in _attributes_in(part.value)
            for file in files
            if file is not None
            for function in of_kind(file.tree, ast.FunctionDef)
            if function.name == "_apply"
            for part in of_kind(function, ast.Assign)
            for target in part.targets
        )

    def _touch(self, node: ast.AST) -> None:
        if vars(node).get("_by_users"):
            self.project.touch_tree()

    def _says_so(self, cls: UnreadClass) -> bool:
        """Whether a class itself tells that it is not exported."""
        if is_never_exported(cls) or counts_up(cls):
            return True
        forward = cls.method("forward")
        if forward is not None and (
            takes_module(forward) or (takes_arrays(forward) and self._is_named_by_tests_only(cls.ref))
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
            return self._has_no_weights(cls) and not self._is_named_by_modules(cls.ref)
        return forward is not None and asks_for_answers(forward) and self._has_no_weights(cls)

    def _is_named_by_modules(self, ref: ClassRef) -> bool:
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

    def _is_named_by_tests_only(self, ref: ClassRef) -> bool:
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

    def _has_no_weights(self, cls: UnreadClass, depth: int = 0, *, wraps: bool = False) -> bool:
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
                    and (depth > _DEEPEST or not self._has_no_weights(UnreadClass(self.project, symbol), depth + 1))
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
                held = _attribute_that_holds(mention)
                other = UnreadClass(self.project, user)
                if held is not None and (
                    held in attributes_of_training(other.methods)
                    or (self._forward_trains(other) and held in attributes_of_forward(other.methods))
                    or self._is_only_run_if_asked(other, held)
                ):
                    return True
                if self._place_is_off(user, mention.function, depth + 1):
                    return True
                if self.project.is_module(user) is not False:
                    return False
            function = mention.function
            if serves(file) or measures(self.project, file) or is_for_samples(self.project, mention, file):
                return True
            statement = mention.statement
            if changes_data(statement) and self._has_no_weights(cls):
                return True
            if isinstance(statement, ast.ClassDef) and mention.node in statement.bases and statement in file.tree.body:
                # What nothing else uses is there for what derives from it.
                return self._class_is_off(ClassRef(file, statement), depth + 1)
            if function is None:
                return _is_built_by(mention) and trains_as_script(file) and self._has_no_weights(cls)
            if (is_quiet or trains(function) or follows_gradients(function)) and not isinstance(
                mention.statement, ast.ClassDef
            ):
                return self._has_no_weights(cls)
            if is_only_compared(self.project, mention, file) and self._has_no_weights(cls, wraps=True):
                return True
            # What works with what another runtime gave, or on inputs by chance, is no program of its own.
            stands_by = knows_a_runtime(file) or (forward is not None and draws_by_itself(forward))
            if stands_by and is_only_run(self.project, mention, file) and self._has_no_weights(cls):
                return True
            return owner is None and self._function_is_off(file, function, depth + 1)

        return self._all(cls.ref.node, cls.file, depth, off)

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

    def _function_is_off(self, file: IndexedFile, node: _Function, depth: int) -> bool:
        known: bool | None = vars(node).get("_off_path")
        if known is not None:
            self._touch(node)
            return known
        vars(node)["_off_path"] = False

        def off(mention: Mention, other: IndexedFile) -> bool:
            owner = mention.cls
            if mention.function is not None and builds_no_model(mention.function):
                return True
            if owner is not None:
                inside = owner is mention.around[0]
                return inside and self._place_is_off(ClassRef(other, owner), mention.function, depth + 1)
            function = mention.function
            if function is None:
                return False
            return trains(function) or self._function_is_off(other, function, depth + 1)

        answer = is_loss_function(node) or (
            node in file.tree.body and not node.decorator_list and self._all(node, file, depth, off)
        )
        vars(node)["_off_path"] = answer
        return answer

    def _takes_a_dict(self, ref: ClassRef) -> bool:
        """Whether a `forward` is given a dict: inputs of Core ML are tensors, so that another module stands around it anyway."""
        forward = UnreadClass(self.project, ref).method("forward")
        required = forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)] if forward else ()
        return any(one.annotation is not None and _DICT.match(ast.unparse(one.annotation)) for one in required)

    def _is_only_a_part(self, ref: ClassRef) -> bool:
        """Whether nothing but other modules builds a class, and something does; themselves, or by functions that only they call."""

        def builds(mention: Mention, file: IndexedFile) -> bool:
            owner = mention.cls
            if owner is None:
                return mention.is_demonstration or self._makes_only_parts(mention, file, 1)
            return owner in file.tree.body and self.project.is_module(ClassRef(file, owner)) is True

        def counts(mention: Mention) -> bool:
            return not mention.is_demonstration

        return not ref.within and self._all(ref.node, ref.file, 0, builds, counts)

    def _is_constant_criterion(self, ref: ClassRef) -> bool:
        """Whether a class is off the path of inference and has no state: what it hides is worked out anew by each constructor."""
        cls = UnreadClass(self.project, ref)
        if cls.method("forward") is None or not all(once(part.node, "_keeps", keeps_nothing) for part in cls.methods):
            return False
        # Who uses it is asked last: all files of the project are searched for its name.
        return self._has_no_weights(cls, wraps=True) and is_off_path(self.project, ref)

    def _changed(self, ref: ClassRef) -> frozenset[str]:
        """The attributes that others than the constructor and what it alone runs change, and may read in a later call: their state."""
        methods = [part.node for part in UnreadClass(self.project, ref).methods if part.node.name != "__init__"]
        methods = [method for method in methods if not _is_run_once(ref, method)]
        changed: set[str] = set().union(*map(attributes_changed, methods))
        return frozenset(
            name
            for name in changed
            if not all(name in attributes_remade(method) for method in methods if name in attributes_changed(method))
            and any(name in _attributes_in(method) and name not in binds_first(method) for method in methods)
        )

    def _is_of_a_measure(self, ref: ClassRef) -> bool:
        """Whether a class stands among measures of quality, or nothing else uses it: it is neither trained nor exported."""
        if measures(self.project, ref.file):
            return True
        self._touch(ref.node)
        return once(ref.node, "_for_measures", lambda _: self._is_used_by_measures(ref))

    def _is_used_by_measures(self, ref: ClassRef) -> bool:
        vars(ref.node)["_by_users"] = True
        self.project.touch_tree()
        # Only where one of them names it: to look through all files for each class takes time.
        mentions = self.project.mentions
        files = mentions.code_files("measures", lambda path: is_path_of_measures(self.project, path))
        if not any(mentions.holds(path, ref.node.name) for path in files):
            return False
        return not may_be_looked_up(self.project, ref) and self._all(
            ref.node, ref.file, 0, lambda _, file: measures(self.project, file)
        )

    def _is_dropped_for_a_loss(self, finding: Diagnostic, file: IndexedFile, ref: ClassRef) -> bool:
        """Whether nothing but a `forward` that gives a loss alone runs what a finding is about."""
        around = _around(file.tree, finding.span.row) if finding.span is not None else []
        cls = UnreadClass(self.project, ref)
        return (
            len(around) > 1
            and around[0] is ref.node
            and gives_only_a_loss(cls)
            and around[1].name in methods_of_forward(cls.methods)
        )

    def _is_part_of_training(self, ref: ClassRef) -> bool:
        """Whether all that builds a class are modules that hold it for training: `forward` runs it under `if self.training:`."""

        def trains(mention: Mention, file: IndexedFile) -> bool:
            owner = mention.cls
            attribute = _attribute_that_holds(mention)
            return (
                owner is not None
                and owner in file.tree.body
                and attribute is not None
                and attribute in attributes_of_training(UnreadClass(self.project, ClassRef(file, owner)).methods)
            )

        return not ref.within and not ref.node.decorator_list and self._all(ref.node, ref.file, 0, trains)

    def _makes_only_parts(self, mention: Mention, file: IndexedFile, depth: int) -> bool:
        """Whether a function builds what is mentioned and gives it back, and nothing but modules calls it, for attributes that they run."""
        function = mention.function
        if function is None or function not in file.tree.body or function.decorator_list or not _gives_back(mention):
            return False

        def calls(user: Mention, other: IndexedFile) -> bool:
            owner = user.cls
            if owner is None:
                return user.is_demonstration or self._makes_only_parts(user, other, depth + 1)
            held = _attribute_that_holds(user)
            cls = UnreadClass(self.project, ClassRef(other, owner))
            return (
                held is not None
                and owner in other.tree.body
                and self.project.is_module(cls.ref) is True
                and not any(is_training_hook(method.node) for method in cls.methods)
                and held in attributes_of_forward(cls.methods)
            )

        return self._all(function, file, depth, calls, lambda user: not user.is_demonstration)

    def _all(
        self, node: ast.ClassDef | _Function, file: IndexedFile, depth: int, off: _Judge, counts: _Counts = bool
    ) -> bool:
        """Whether all mentions of a class or function are off the path, and some; what tests say is no word of it."""
        if depth > _DEEPEST:
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


def _around(tree: ast.Module, row: int) -> list[ast.ClassDef | _Function]:
    """The classes and functions around a line, outermost first."""
    around: list[ast.ClassDef | _Function] = []
    node: ast.Module | ast.ClassDef | _Function = tree
    while True:
        named = once(node, "_named", lambda holder: [*_named(holder.body)])
        # In the order in which they stand; a decorator stands above its line.
        at = bisect_right(named, row, key=lambda part: part.lineno)
        inner = named[at - 1] if at else None
        if inner is None or row > (inner.end_lineno or 0):
            return around
        around.append(inner)
        node = inner


def _owner_of(file: IndexedFile, around: list[ast.ClassDef | _Function]) -> ClassRef | None:
    """The class whose method the innermost function is."""
    return ClassRef(file, around[0]) if isinstance(around[0], ast.ClassDef) and len(around) == 2 else None


def _named(body: list[ast.stmt]) -> Iterator[ast.ClassDef | _Function]:
    for statement in body:
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement
        elif isinstance(statement, (ast.If, ast.Try, ast.With, ast.For)):
            yield from _named([*statement.body, *getattr(statement, "orelse", ())])


def _is_run_once(ref: ClassRef, method: _Function) -> bool:
    """Whether nothing in a file but the constructor of a class names a method of it."""
    init = next((part for part in of_kind(ref.node, ast.FunctionDef) if part.name == "__init__"), None)
    if init is None:
        return False
    inside = sum(part.attr == method.name for part in of_kind(init, ast.Attribute))
    return inside > 0 and inside == sum(part.attr == method.name for part in of_kind(ref.file.tree, ast.Attribute))


def _is_built_by(mention: Mention) -> bool:
    """Whether a statement binds or uses what it builds of what it mentions: `blur = Blur()`."""
    return isinstance(mention.statement, (ast.Assign, ast.Expr)) and any(
        isinstance(part, ast.Call) and part.func is mention.node for part in ast.walk(mention.statement)
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


def _attribute_that_holds(mention: Mention) -> str | None:
    """The attribute of `self` that is bound to what a mention builds: `self.loss = Loss()`."""
    match mention.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            # `self.loss = Loss() if loss is None else loss`
            values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            return name if any(isinstance(part, ast.Call) and part.func is mention.node for part in values) else None
    return None
