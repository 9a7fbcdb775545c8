"""Buffers, dropouts and parameters that real source has right, and the text with one of them undone.

A buffer becomes a plain attribute, a functional dropout loses its ``training``, and a cast moves out of, or is added
after, ``nn.Parameter(…)``. What would be no defect once undone is left out, with the reason counted; what the file
alone does not show to be one stays in, and marks tell such sites apart.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from classes import FileFacts, Tree
from modellint.source.syntax.source_text import SourceText
from shown import Showing
from unfix import Binding, Finder, Replacement, Site, Sites, self_name
from uses import Excluded, Function, ancestors, attributes_of, last_name, targets_of

BUFFER = "buffer"
TRAINING = "training"
CAST = "cast-moved-out"
ADDED_CAST = "cast-added"
KINDS = (BUFFER, TRAINING, CAST, ADDED_CAST)

SHOWN = "value shown"
READ = "read in forward"
METHOD = "in a module's method"
OWN_RATE = "rate is no argument"
MARKS = {BUFFER: (SHOWN, READ), TRAINING: (METHOD, OWN_RATE)}
"""By kind: what the recall is told apart by."""

_ON_BY_DEFAULT = {"dropout", "dropout1d", "dropout2d", "dropout3d"}
_OFF_BY_DEFAULT = {"alpha_dropout", "feature_alpha_dropout"}
_MODE_AT = 2
_CASTS = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type"}
_ASKED = "only its device, dtype or shape is read"
_ABOUT = {"device", "dtype", "shape"}
_MODE = re.compile(r"\b\w*training\b|\bis_train\b|\bgrad_enabled\b|\btrain\b")


def find_sites(source: SourceText, tree: ast.Module, facts: FileFacts, project: Tree) -> Sites:
    """Every site of a file, and why the other candidates are none."""
    return _State(source, tree, facts, project).run()


@dataclass(frozen=True, slots=True)
class _Registration:
    """One statement that makes an attribute a buffer; ``value`` is ``None`` for the constant."""

    statement: ast.stmt
    value: ast.expr | None
    edit: Replacement
    form: str


class _State(Finder):
    def run(self) -> Sites:
        self.showing = Showing(self.tree, self.parents, self.resolved)
        self.buffers: defaultdict[tuple[ast.ClassDef, str], list[_Registration]] = defaultdict(list)
        sites: list[Site] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (kind := self.kind(node)):
                try:
                    if kind == BUFFER:
                        self.registration(node)
                    else:
                        sites.append(self.dropout(node) if kind == TRAINING else self.cast(node))
                except Excluded as why:
                    self.reason[kind, str(why)] += 1
        for (cls, attribute), group in self.buffers.items():
            try:
                sites.append(self.buffer(cls, attribute, sorted(group, key=lambda each: each.edit)))
            except Excluded as why:
                self.reason[BUFFER, str(why)] += len(group)
        sites.sort(key=lambda site: site.start)
        return Sites(sites, self.reason)

    def kind(self, call: ast.Call) -> str:
        name = last_name(call.func)
        if name == "register_buffer":
            return BUFFER
        match self.torch_nn(call.func):
            case "Buffer":
                return BUFFER
            case "Parameter":
                inner = call.args[0] if call.args else None
                match inner:
                    case ast.Call(func=ast.Attribute(attr=name)) if name in _CASTS:
                        return CAST
                return ADDED_CAST
        if name.endswith(("dropout", "dropout1d", "dropout2d", "dropout3d")):
            full = self.resolved(call.func)
            if full.startswith("torch.nn.functional.") and full.rpartition(".")[2] in _ON_BY_DEFAULT | _OFF_BY_DEFAULT:
                return TRAINING
        return ""

    def text(self, node: ast.expr) -> str:
        start, end = self.offsets(node)
        return self.source.text[start:end]

    def bare(self, node: ast.expr) -> str:
        """The text of an expression that leaves the brackets it stood in."""
        text = self.text(node)
        needed = "\n" in text or isinstance(node, ast.NamedExpr | ast.Yield | ast.IfExp)
        return f"({text})" if needed else text

    # -- buffers -------------------------------------------------------------------------------------

    def registration(self, call: ast.Call) -> None:
        """Note one registration under the attribute that it makes a buffer."""
        cls, method = self.home(call)
        if last_name(call.func) == "register_buffer":
            attribute, registration = self.registered(call, method)
        else:
            attribute, registration = self.assigned_buffer(call, method)
        if self.has_noqa(registration.statement):
            raise Excluded("the line carries a noqa comment")
        self.buffers[cls, attribute].append(registration)

    def registered(self, call: ast.Call, method: Function) -> tuple[str, _Registration]:
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not (isinstance(owner, ast.Name) and owner.id == self_name(method)):
            raise Excluded("registered on another object")
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        name = call.args[0] if call.args else words.get("name")
        value = call.args[1] if len(call.args) > 1 else words.get("tensor")
        if name is None or value is None or None in words or any(isinstance(a, ast.Starred) for a in call.args):
            raise Excluded("arguments not understood")
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier()):
            raise Excluded("the name is no literal")
        statement = self.parents[call]
        if not isinstance(statement, ast.Expr):
            raise Excluded("the call is no statement")
        edit = (*self.offsets(statement), f"{owner.id}.{name.value} = {self.bare(value)}")
        return name.value, _Registration(statement, _unless_none(value), edit, "register_buffer")

    def assigned_buffer(self, call: ast.Call, method: Function) -> tuple[str, _Registration]:
        parent, child = self.flows_into(call)
        names = attributes_of(parent)
        if not isinstance(parent, ast.Assign | ast.AnnAssign) or child is not parent.value or not names:
            raise Excluded("not assigned to an attribute of self")
        if len(targets_of(parent)) > 1 or self_name(method) != "self":
            raise Excluded("arguments not understood")
        value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "data"), None)
        if value is None or isinstance(value, ast.Starred):
            raise Excluded("arguments not understood")
        replacement = self.bare(value) if child is call else f"({self.text(value)})"
        return names[0], _Registration(parent, _unless_none(value), (*self.offsets(call), replacement), "nn.Buffer")

    def buffer(self, cls: ast.ClassDef, attribute: str, group: list[_Registration]) -> Site:
        """One attribute of one class: every statement that registers it is undone, else it still were a buffer."""
        values = [each.value for each in group if each.value is not None]
        if not values:
            raise Excluded("the value is None")
        if not self.project.is_read(self.facts, cls.name, attribute):
            raise Excluded("nothing in the tree reads it")
        shown = [self.showing.of(value) for value in values]
        marks = [SHOWN] if all(each.yes for each in shown) else []
        why = next((each.how for each in shown if not each.yes), "")
        reading = self.reading(cls, attribute)
        if reading in ("", _ASKED):
            marks.append(READ)
        form = f"shown by {max(each.how for each in shown)}" if not why else f"not shown: {why}"
        first = next(each for each in group if each.value is not None)
        others = tuple(each.edit for each in group if each is not first)
        return Site(
            BUFFER,
            form + (f"; {reading}" if reading else ""),
            cls.name,
            self.qualname(cls),
            cls.lineno,
            cls.end_lineno or cls.lineno,
            first.statement.lineno,
            *first.edit,
            tuple(
                Binding(cls.name, attribute, each.statement.lineno, each.statement.end_lineno or each.statement.lineno)
                for each in group
            ),
            others,
            tuple(marks),
            # What is assigned to a buffer stays one: registering it once is enough.
            others,
        )

    def reading(self, cls: ast.ClassDef, attribute: str) -> str:
        """How the methods that forward reaches read the attribute; empty where they read its value."""
        methods: dict[str, Function] = {}
        pending, seen = [cls], {cls.name}
        while pending:
            current = pending.pop(0)
            for item in current.body:
                if isinstance(item, Function):
                    methods.setdefault(item.name, item)
            names = {base.id for base in current.bases if isinstance(base, ast.Name)} - seen
            seen |= names
            pending += [node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name in names]
        reads = {name: set(_attributes_read(method)) for name, method in methods.items()}
        if "forward" not in methods:
            read = any((attribute, False) in used for used in reads.values())
            return "no forward in the file, read in a method" if read else "no forward in the file, not read"
        reached: set[str] = set()
        waiting = ["forward"]
        found: set[tuple[str, bool]] = set()
        while waiting:
            name = waiting.pop()
            if name not in reached and name in methods:
                reached.add(name)
                found |= reads[name]
                waiting += [used for used, _ in reads[name]]
        if (attribute, False) in found:
            return ""
        if (attribute, True) in found:
            return _ASKED
        others = [used for name, used in reads.items() if name not in reached and name != "__init__"]
        read = any((attribute, False) in used for used in others)
        return "read in methods that forward does not reach" if read else "not read in the class"

    # -- dropout -------------------------------------------------------------------------------------

    def dropout(self, call: ast.Call) -> Site:
        name = self.resolved(call.func).rpartition(".")[2]
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            raise Excluded("arguments not understood")
        word = next((keyword for keyword in call.keywords if keyword.arg == "training"), None)
        given = word.value if word else call.args[_MODE_AT] if len(call.args) > _MODE_AT else None
        if given is None:
            raise Excluded("no training")
        if isinstance(given, ast.Constant):
            raise Excluded("training is a literal")
        function = self.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef)
        statement = self.enclosing(call, ast.stmt)
        if not isinstance(function, Function) or not isinstance(statement, ast.stmt):
            raise Excluded("outside a function")
        cls = self.enclosing(function, ast.ClassDef)
        if isinstance(cls, ast.ClassDef) and cls.lineno not in self.module_rows:
            raise Excluded("in a class not known to be a module")
        if self.has_noqa(statement):
            raise Excluded("the line carries a noqa comment")
        if self.is_guarded(call, function):
            raise Excluded("behind a test of the mode")
        rate = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "p"), None)
        self.refuse_rate(rate, function)
        marks = [METHOD] if isinstance(cls, ast.ClassDef) else []
        if not (isinstance(rate, ast.Name) and rate.id in _parameters(function)):
            marks.append(OWN_RATE)
        edit = self.without_mode(call, word, given) if name in _ON_BY_DEFAULT else (*self.offsets(given), "True")
        owner = cls if isinstance(cls, ast.ClassDef) else function
        return Site(
            TRAINING,
            f"{name}, {_spelling(given)}{'' if word else ', by position'}",
            cls.name if isinstance(cls, ast.ClassDef) else "",
            self.qualname(cls) if isinstance(cls, ast.ClassDef) else "",
            owner.lineno,
            owner.end_lineno or owner.lineno,
            call.lineno,
            *edit,
            (Binding("", "", call.lineno, call.end_lineno or call.lineno),),
            (),
            tuple(marks),
        )

    def without_mode(self, call: ast.Call, word: ast.keyword | None, given: ast.expr) -> Replacement:
        """Cut the argument with the comma before it; a position that stands behind it gets its keyword."""
        start, end = self.offsets(given)
        if word is not None:
            start = self.source.byte_offset(word.lineno, word.col_offset)
        elif len(call.args) > _MODE_AT + 1:
            last = call.args[_MODE_AT + 1]
            return start, self.offsets(last)[1], f"inplace={self.text(last)}"
        before = self.source.text[:start].rstrip()
        if not before.endswith(","):
            raise Excluded("arguments not understood")
        return len(before) - 1, end, ""

    def is_guarded(self, call: ast.Call, function: Function) -> bool:
        """Whether a test of the mode decides about the call: around it, or by leaving the function before it."""
        child: ast.AST = call
        for parent in ancestors(call, self.parents):
            test = getattr(parent, "test", None)
            if isinstance(test, ast.expr) and child is not test and _asks_mode(test):
                return True
            if isinstance(parent, ast.BoolOp) and any(
                _asks_mode(value) for value in parent.values if value is not child
            ):
                return True
            for block in ("body", "orelse"):
                statements = getattr(parent, block, None)
                if isinstance(statements, list) and child in statements:
                    for earlier in statements[: statements.index(child)]:
                        if isinstance(earlier, ast.If) and _asks_mode(earlier.test) and _leaves(earlier.body):
                            return True
            if parent is function:
                break
            child = parent
        return False

    def refuse_rate(self, rate: ast.expr | None, function: Function) -> None:
        """Leave out a rate that is 0, or that whoever sets it makes 0 in evaluation."""
        if rate is None:
            return
        if _is_zero(rate):
            raise Excluded("the rate is 0")
        if _asks_mode(rate):
            raise Excluded("the rate depends on the mode")
        if not isinstance(rate, ast.Name):
            return
        given = self.handed(rate.id) if rate.id in _parameters(function) else []
        if given and all(_is_zero(value) or _asks_mode(value) for value in given):
            raise Excluded("the callers in the file hand a rate of 0 in evaluation")
        for node in ast.walk(function):
            bound = isinstance(node, ast.Assign) and any(_names(target, rate.id) for target in node.targets)
            if isinstance(node, ast.Assign) and bound and _asks_mode(node.value):
                raise Excluded("the rate depends on the mode")

    def handed(self, name: str) -> list[ast.expr]:
        """What the file's calls of functions, not of classes, hand over under a keyword."""
        return [
            keyword.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and not last_name(node.func)[:1].isupper()
            for keyword in node.keywords
            if keyword.arg == name
        ]

    # -- casts ---------------------------------------------------------------------------------------

    def cast(self, call: ast.Call) -> Site:
        parent, child = self.flows_into(call)
        cls, method = self.home(call)
        names = attributes_of(parent)
        if not isinstance(parent, ast.Assign | ast.AnnAssign) or child is not parent.value or not names:
            raise Excluded("not assigned to an attribute of self")
        if len(targets_of(parent)) > 1 or self_name(method) != "self":
            raise Excluded("several targets")
        if not call.args or isinstance(call.args[0], ast.Starred):
            raise Excluded("no value by position")
        if self.has_noqa(parent):
            raise Excluded("the line carries a noqa comment")
        value = call.args[0]
        start, end = self.offsets(call)
        at, until = self.offsets(value)
        whole = self.source.text
        restored: tuple[Replacement, ...] = ()
        if self.kind(call) == CAST:
            assert isinstance(value, ast.Call)
            dot = whole.rindex(".", at, self.offsets(value.func)[1])
            replacement = whole[start:at] + whole[at:dot].rstrip() + whole[until:end] + whole[dot:until]
            form = last_name(value.func)
        else:
            torch = next((name for name, full in self.facts.names.items() if full == "torch"), None)
            # Half precision: a cast to the type that the value already has would leave the parameter what it is.
            cast = f".to({torch}.float16)" if torch else ".half()"
            replacement = whole[start:end] + cast
            inner = whole[at:until]
            restored = ((at, until, f"({inner}){cast}"),)
            form = "requires_grad given" if len(call.args) + len(call.keywords) > 1 else "value only"
        return Site(
            self.kind(call),
            form,
            cls.name,
            self.qualname(cls),
            cls.lineno,
            cls.end_lineno or cls.lineno,
            parent.lineno,
            start,
            end,
            replacement,
            (Binding(cls.name, names[0], parent.lineno, parent.end_lineno or parent.lineno),),
            restored=restored,
        )


# -- small questions about nodes -------------------------------------------------------------------------


def _unless_none(value: ast.expr) -> ast.expr | None:
    return None if isinstance(value, ast.Constant) and value.value is None else value


def _attributes_read(function: Function) -> Iterator[tuple[str, bool]]:
    """The attributes of ``self`` that a method reads, and whether only to ask what kind of tensor it is."""
    own = self_name(function)
    asked = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Attribute) and node.attr in _ABOUT}
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Load()) if owner == own:
                yield name, id(node) in asked
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=owner), attr=name)) if owner == own:
                yield name, False
            case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_]):
                if owner == own:
                    yield name, False
            case _:
                pass


def _parameters(function: Function) -> set[str]:
    arguments = function.args
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _asks_mode(node: ast.expr) -> bool:
    return _MODE.search(ast.unparse(node)) is not None


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _names(target: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(target))


def _spelling(given: ast.expr) -> str:
    match given:
        case ast.Attribute(value=ast.Name(id="self"), attr="training"):
            return "self.training"
        case ast.Attribute(attr="training"):
            return "training of another object"
        case ast.Name():
            return "a name"
    return "another expression"
