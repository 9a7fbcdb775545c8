"""Conditions on flags: branches of a module that stand under an argument of its constructor which everyone in the project leaves out.

An argument is followed from the attribute that it is bound to (``self.measure = measure``) to what all constructions of the class give for
it; an attribute that is bound to one constant (``self.mode = "bilinear"``), and to nothing else in the project, is that.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import ClassRef, External
from modellint.source.roles.constructor_fallback_ranks import asked_rank, filled_rank, substitute
from modellint.source.roles.constructor_flags.argument_values import (
    LEFT_OUT,
    UNKNOWN,
    WRITTEN,
    Insisted,
    Parameter,
    Told,
    is_same,
    own_init,
    parameter_of,
    rebinds,
    value_from_subclasses,
    value_in_constructions,
)
from modellint.source.roles.constructor_flags.attribute_writes import (
    bindings_of,
    is_handed_down,
    is_only_asked,
    is_written,
    is_zero_buffer,
)
from modellint.source.syntax.ast_walk import functions_in, of_kind, once
from modellint.source.syntax.path_conditions import conditions_at

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_OF_TORCH = re.compile(r"torch\.nn\.(?:modules\.batchnorm\.)?(?:BatchNorm[123]d|SyncBatchNorm|_BatchNorm)")
_TRACKS = Parameter("track_running_stats", 4, True)
"""Of PyTorch's batch normalization, which has no other switch that a branch asks for."""


def is_switched_off(project: Project, ref: ClassRef, function: ast.AST | None, row: int) -> bool:
    """Whether a row of a method is reached in training only, or with a flag only that no construction in the project switches on."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    flags = _Flags(project, ref)
    if any(flags.truth(test) is (not holds) for test, holds in conditions_at(function.body, row)):
        return True
    project.touch_tree()
    return once(function, "_is_called_when_off", lambda _: _is_called_when_off(flags, function))


def _is_called_when_off(flags: _Flags, function: _Function) -> bool:
    """Whether a method is only called by others of its class, where that is switched off: `if self.mode == "mask": self.up(x)`."""
    ref, name = flags.ref, function.name
    if name.startswith("__") or name == "forward":
        return False
    calls = [
        (caller, call)
        for caller in functions_in([ref.node])
        for call in of_kind(caller, ast.Call)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == name
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "self"
    ]
    named = sum(part.attr == name for part in of_kind(ref.file.tree, ast.Attribute))
    if not calls or named > len(calls) or any(caller is function for caller, _ in calls):
        return False
    if not all(
        any(flags.truth(test) is (not holds) for test, holds in conditions_at(caller.body, call.lineno))
        for caller, call in calls
    ):
        return False
    mentions = flags.project.mentions
    return mentions.is_whole and set(mentions.naming(name)) <= {ref.file.path}


def flag_truth(project: Project, ref: ClassRef, test: ast.expr) -> bool | None:
    """What a condition on flags of the constructor is while the model does not train, in all the project; None where that is not known."""
    return _Flags(project, ref).truth(test)


def is_never_built(project: Project, ref: ClassRef, function: ast.AST | None, row: int) -> bool:
    """Whether a row of a constructor is reached with an argument only that no construction in the project gives, or without one only."""
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
        return False
    flags = _Flags(project, ref, function)
    return any(flags.truth(test) is (not holds) for test, holds in conditions_at(function.body, row))


def keeps_default(project: Project, ref: ClassRef, name: str) -> bool:
    """Whether an argument of a constructor has a default that everyone in the project who builds the class leaves as it is."""
    known: dict[str, bool] = once(ref.node, "_keeps_default", lambda _: {})
    if name not in known:
        init = own_init(ref)
        parameter = parameter_of(init, name, computed=True) if init is not None else None
        known[name] = (
            parameter is not None
            and init is not None
            and not rebinds(init, name)
            and _Flags(project, ref).keeps(parameter, init)
        )
    project.touch_tree()
    return known[name]


def is_left_none(project: Project, ref: ClassRef, name: str) -> bool:
    """Whether an argument of a constructor is None in all the project, where somebody builds the class."""
    return _Flags(project, ref, own_init(ref)).argument(name) is None


class _Flags:
    """The flags of one class: attributes of its objects that are one constant in all the project."""

    def __init__(self, project: Project, ref: ClassRef, init: _Function | None = None) -> None:
        self.project = project
        self.ref = ref
        self.init = init
        """The constructor whose arguments are asked for by their names, if it is one that runs."""

    def truth(self, test: ast.expr) -> bool | None:
        """What a condition is while the model does not train; None where that depends on more than flags."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                ends = isinstance(op, ast.Or)
                truths = [self.truth(value) for value in values]
                return ends if ends in truths else None if None in truths else not ends
            case ast.Compare(
                left=ast.Attribute(value=ast.Name(id="self"), attr=name),
                ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=None | bool() | str() as wanted)],
            ):
                value = self.value(name)
                return None if value is UNKNOWN else is_same(value, wanted) is isinstance(op, (ast.Is, ast.Eq))
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=None | bool() as wanted)],
            ):
                value = self.argument(name)
                return None if value is UNKNOWN else (value is wanted) is isinstance(op, (ast.Is, ast.Eq))
            case ast.Name(id=name):
                value = self.argument(name)
                return None if value is UNKNOWN or value is WRITTEN else bool(value)
            case ast.Attribute(value=ast.Name(id="self"), attr="training"):
                return False
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                value = self.value(name)
                return None if value is UNKNOWN else bool(value)
        asked = asked_rank(test)
        rank = self.rank(asked.attribute) if asked is not None else None
        return asked.holds(rank) if asked is not None and rank is not None else None

    def rank(self, attribute: str) -> int | None:
        """The number of dimensions of what an attribute is where an argument is None, as it is in all the project; None if not known."""
        ranks: dict[str, int | None] = once(self.ref.node, "_default_ranks", lambda _: {})
        if attribute not in ranks:
            ranks[attribute] = None
            ranks[attribute] = self._look_up_rank(attribute)
        self.project.touch_tree()
        return ranks[attribute]

    def _look_up_rank(self, attribute: str) -> int | None:
        lineage = self.project.lineage(self.ref)
        binding = [
            at for at, ref in enumerate(lineage) if next(bindings_of(ref.node, attribute), UNKNOWN) is not UNKNOWN
        ]
        if len(binding) != 1 or any(len(ref.node.bases) > 1 for ref in lineage):
            return None
        end = binding[0]
        init = own_init(lineage[end])
        bound = substitute(init, attribute) if init is not None else None
        parameter = parameter_of(init, bound.argument) if init is not None and bound is not None else None
        if init is None or bound is None or parameter is None or parameter.default is not None:
            return None
        rank = filled_rank(self.project, lineage[end].file, bound.instead)
        if rank is None or rebinds(init, bound.argument):
            return None
        value = value_from_subclasses(self.project, lineage[:end], lineage[end], parameter, 0)
        if value is not None and value is not LEFT_OUT:
            return None
        # What the constructor binds it to is known; a method that binds it anew is no constructor.
        own = [function for function in functions_in([lineage[end].node]) if function is not init]
        rebound = any(
            part.attr == attribute and not isinstance(part.ctx, ast.Load)
            for function in own
            for part in of_kind(function, ast.Attribute)
        )
        return None if rebound or is_written(self.project, self.ref, attribute, lineage) else rank

    def value(self, attribute: str) -> Told:
        """The constant that an attribute is in all the project; of an argument True, False or None."""
        flags: dict[str, Told] = once(self.ref.node, "_flags", lambda _: {})
        if attribute not in flags:
            flags[attribute] = UNKNOWN
            value = self._look_up(attribute)
            if value is UNKNOWN and is_handed_down(self.project, self.ref, attribute):
                value = False
            flags[attribute] = value
        self.project.touch_tree()
        return flags[attribute]

    def argument(self, name: str) -> Told:
        """True, False or None, or something that is written down, where an argument of the constructor is that in all the project."""
        init = self.init
        if init is None or init is not own_init(self.ref):
            return UNKNOWN
        told: dict[str, Told] = once(init, "_arguments", lambda _: {})
        if name not in told:
            parameter = parameter_of(init, name)
            told[name] = UNKNOWN
            if parameter is not None and parameter.is_flag and not rebinds(init, name):
                value = value_in_constructions(self.project, self.ref, parameter, 0, needed=True)
                told[name] = value if value is parameter.default or value is WRITTEN else UNKNOWN
        self.project.touch_tree()
        return told[name]

    def keeps(self, parameter: Parameter, init: _Function) -> bool:
        """Whether no construction of the class gives an argument another value than its default, and nothing writes what is bound to it."""
        if not is_same(value_in_constructions(self.project, self.ref, parameter, 0, needed=False), parameter.default):
            return False
        lineage = self.project.lineage(self.ref)
        bound = [
            target.attr
            for assign in of_kind(init, ast.Assign)
            if isinstance(assign.value, ast.Name) and assign.value.id == parameter.name
            for target in assign.targets
            if isinstance(target, ast.Attribute)
        ]
        return not any(
            is_written(self.project, self.ref, attribute, lineage)
            or sum(1 for ref in lineage for _ in bindings_of(ref.node, attribute)) > 1
            for attribute in bound
        )

    def _look_up(self, attribute: str) -> Told:
        lineage = self.project.lineage(self.ref)
        if any(len(ref.node.bases) > 1 or attribute in ref.file.members(ref.node) for ref in lineage):
            return UNKNOWN
        binders = [(at, bound) for at, ref in enumerate(lineage) for bound in bindings_of(ref.node, attribute)]
        if not binders and any(is_zero_buffer(ref.node, attribute) for ref in lineage):
            return False if is_only_asked(self.project, attribute) else UNKNOWN
        if not binders:
            base = self.project.bases(lineage[-1])
            if attribute != _TRACKS.name or not (
                len(base) == 1 and isinstance(base[0], External) and _OF_TORCH.fullmatch(base[0].name)
            ):
                return UNKNOWN
            parameter, end = _TRACKS, len(lineage)
        else:
            end, bound = binders[0]
            init = own_init(lineage[end])
            if len(binders) == 1 and isinstance(bound, ast.Constant) and isinstance(bound.value, (bool, str)):
                return UNKNOWN if is_written(self.project, self.ref, attribute, lineage) else bound.value
            if len(binders) > 1 or init is None or not isinstance(bound, ast.Name):
                return UNKNOWN
            known = parameter_of(init, bound.id)
            if known is None or rebinds(init, bound.id):
                return UNKNOWN
            parameter = known
        if not parameter.is_flag:
            return UNKNOWN
        value = value_from_subclasses(self.project, lineage[:end], lineage[end] if binders else None, parameter, 0)
        if isinstance(value, Insisted):
            value = value.on
        elif value is LEFT_OUT or value is parameter.default:
            value = parameter.default
        else:
            return UNKNOWN
        return UNKNOWN if is_written(self.project, self.ref, attribute, lineage) else value
