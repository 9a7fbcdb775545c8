"""Severity of findings: information alone where no exported model runs what they are about.

A finding about what an exported model runs is worth knowing only where it is not known that nothing but training, evaluation or a test
runs the code.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from modellint.results.diagnostic import Applicability, Diagnostic, Severity
from modellint.source.project.symbols import ClassRef, IndexedFile
from modellint.source.roles.code_roles import gives_only_a_loss, is_in_tests
from modellint.source.roles.collectives import runs_with_collectives
from modellint.source.roles.constant_variables import is_ruled_out
from modellint.source.roles.constructor_flags.flag_conditions import is_never_built, is_switched_off
from modellint.source.roles.dead_code.always_raising_code import asks_in_vain_before, cannot_be_run, fails_before
from modellint.source.roles.files.forward_hooks import registers_no_hook
from modellint.source.roles.files.run_records import is_record_of_a_run, is_written_by_a_converter
from modellint.source.roles.forward_call_sites.call_arguments import is_left_out, is_never_switched_on
from modellint.source.roles.forward_call_sites.call_sites import is_only_trained
from modellint.source.roles.inference_path.reachability import Reachability, is_off_path
from modellint.source.roles.inference_path.references import References
from modellint.source.roles.method_side_effects import (
    attributes_changed,
    attributes_remade,
    binds_first,
    keeps_nothing,
    makes_by_itself,
)
from modellint.source.roles.model_evaluation_code import compares_with_truth, gives_nothing_in_evaluation
from modellint.source.roles.parent_modules import is_called_where_it_is_built
from modellint.source.roles.training_code import (
    is_about_a_loss,
    is_loss_function,
    is_training_script,
    optimizes_by_hand,
    runs_to_train,
    trains,
)
from modellint.source.roles.training_parts import is_training_hook, methods_of_forward
from modellint.source.roles.uncalled_forward import is_run_by_parts
from modellint.source.roles.uncalled_methods import is_unnamed
from modellint.source.roles.unexportable_code import takes_samples
from modellint.source.roles.unexported_branches import is_left_out_of_exports
from modellint.source.roles.uninterpreted_class import UnreadClass
from modellint.source.syntax.ast_walk import called_name, functions_in, given_to, of_kind, once

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DICT = re.compile(r"(?:\w+\.)*(?:[Dd]ict|Mapping|MutableMapping)\b")


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
    """Which findings are about what no exported model runs."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.reachability = Reachability(project)
        self.references = References(project)
        self.uses = self.references.uses
        self._criteria: dict[ast.ClassDef, bool] = {}

    def is_off(self, finding: Diagnostic, rule: Rule | None, file: IndexedFile, ref: ClassRef | None) -> bool:
        """Whether a finding is about what an exported model does not run."""
        if rule is None:
            return False
        # Nobody exports what a test defines, or trains it to be kept: whatever a rule is about.
        if is_in_tests(self.project, file) or is_record_of_a_run(self.project, file) or is_written_by_a_converter(file):
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
            if self.references.is_of_a_measure(ref):
                return True
            return once(ref.node, "_optimizes_by_hand", optimizes_by_hand) or (
                rule.code == "REG006" and self.references.is_part_of_training(ref)
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
            if rule.code.startswith("SIG") and (self._takes_a_dict(ref) or self.references.is_only_a_part(ref)):
                return True
            # What other modules hand it is no input of the program.
            if rule.code == "MUT007" and self.references.is_only_a_part(ref):
                return True
            return self.reachability.place_is_off(ref, functions[0] if functions else None, 0)
        if not around:
            return False
        if isinstance(around[0], ast.ClassDef):
            return self.reachability.place_is_off(ClassRef(file, around[0]), functions[0] if functions else None, 0)
        # A script that loads a checkpoint is run wherever it is called from, unless it trains.
        if rule.code.startswith("DEV"):
            return any(map(trains, functions))
        return self.reachability.function_is_off(file, around[0], 0)

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

    def _takes_a_dict(self, ref: ClassRef) -> bool:
        """Whether a `forward` is given a dict: inputs of Core ML are tensors, so that another module stands around it anyway."""
        forward = UnreadClass(self.project, ref).method("forward")
        required = forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)] if forward else ()
        return any(one.annotation is not None and _DICT.match(ast.unparse(one.annotation)) for one in required)

    def _is_constant_criterion(self, ref: ClassRef) -> bool:
        """Whether a class is off the path of inference and has no state: what it hides is worked out anew by each constructor."""
        cls = UnreadClass(self.project, ref)
        if cls.method("forward") is None or not all(once(part.node, "_keeps", keeps_nothing) for part in cls.methods):
            return False
        # Who uses it is asked last: all files of the project are searched for its name.
        return self.reachability.has_no_weights(cls, wraps=True) and is_off_path(self.project, ref)

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
