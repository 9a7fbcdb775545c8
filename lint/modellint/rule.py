"""What a rule is, how its page is read, and where rules are found.

A rule is a class in a file of its own below a rules package. Its docstring is its page; the annotation of the
argument of ``source`` and ``live`` is its registration. The machine walks the package and names no rule.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from modellint.results.diagnostic import Diagnostic, Fix, Severity, Span
from modellint.results.operator_support import Hint as Hint

if TYPE_CHECKING:
    import ast
    from types import ModuleType

    from modellint.settings import Destination

SECTIONS = ("What it does", "Why", "Bad", "Good", "Fix safety", "Known limits", "References")
"""The sections of every page, in this order; Bad and Good are Python and are run as tests.

Of a rule about the environment they are requirements, ``name==version`` on each line."""

FAMILIES = {
    "REG": "registration",
    "MUT": "mutation",
    "OPS": "operators",
    "SHP": "shapes",
    "FLW": "flow",
    "NUM": "numerics",
    "MOD": "mode",
    "DEV": "device",
    "SIG": "signature",
    "ENV": "environment",
}
"""Code family to folder of the rules package."""

_CODE = re.compile(r"[A-Z]{3}[0-9]{3}\Z")
RULE_FILE = re.compile(r"[a-z]{3}[0-9]{3}_")
"""The names of files that hold rules of modellint: what these share is loaded where it is needed."""
_ANY_FILE = re.compile(r"(?!test_|conftest\Z|setup\Z)")
_NO_RULES = ("__pycache__", "tests")
"""Folders in which rules are not looked for."""


class Feature(Enum):
    """What a look at a class's syntax can rule out."""

    CONTAINER_ON_SELF = "a plain container on self that may hold modules or parameters"
    INIT_WITHOUT_BASE = "an __init__ that does not start by calling its base's"


class Trigger:
    """What may stand among the words of ``needs``: patterns that syntax must show before code is read.

    Each asks "may there be such a thing?" at a glance; no means no.
    """

    MAKES_TENSORS = "<makes tensors>"
    """What builds the object may make a tensor."""
    HIGH_RANK = "<wide>"
    """A tensor may get six dimensions."""
    BUILDS_MODULE = "<builds>"
    """A function other than ``__init__`` may build a module with state."""
    BRANCHES_ON_DATA = "<branches on data>"
    """A condition may depend on the values of a tensor."""
    TENSOR_TO_NUMBER = "<takes numbers>"
    """Python may take a number out of a tensor."""
    USES_NUMPY = "<uses numpy>"
    """NumPy may work on what the caller gives."""
    LOOPS_OVER_DATA = "<loops over data>"
    """A loop may be as long as a tensor."""
    WRITES_IN_PLACE = "<writes in place>"
    """Something may be changed in place."""
    WRITES_BY_INDEX = "<assigns by indices>"
    """An item may be assigned to by a tensor of indices or truths."""
    WRITES_ITEMS = "<assigns items>"
    """An item may be assigned to."""
    SETS_ATTRIBUTES = "<sets attributes>"
    """``forward`` may set attributes of the object."""
    CHANGES_STATE = "<changes state>"
    """What ``forward`` runs may change a tensor in place or bind an attribute."""
    CHANGES_STATE_ANYWHERE = "<changes state anywhere>"
    """The same, or another file of the project may do so for it."""
    KEEPS_CONTAINERS = "<keeps containers>"
    """An attribute of the object may hold a list, a tuple or a dict that the class makes."""
    ABOVE_FLOAT16 = "<numbers beyond float16>"
    """A number may be written down that float16 does not hold."""
    BELOW_FLOAT16 = "<numbers below float16>"
    """A positive number may be written down that is smaller than any of float16."""
    OUTSIDE_INT32 = "<numbers outside int32>"
    """A whole number may be written down that int32 does not hold."""
    RETURNS_DICT = "<returns a dict>"
    """What `forward` runs may return a dict."""
    RETURNS_NON_TENSOR = "<returns no tensor>"
    """``forward`` may return something that is no tensor."""
    LITERAL_SIZES = "<sizes written down>"
    """A tensor may be reshaped to sizes that are all numbers."""
    SEVERAL_INDICES = "<several indices>"
    """Something may be indexed by two tensors at once."""
    CASTS_PARAMETER = "<casts parameters>"
    """A new parameter may be computed with where it is made."""
    NO_RUNNING_STATISTICS = "<keeps no statistics>"
    """A batch normalization may be told to keep no running statistics."""
    CALLS_PROJECT = "<calls the project>"
    """A call may run what the class, its file or another file of the project defines, or the file may import from one."""
    SLICE_STEP = "<step>"
    """There is a slice with a step."""
    PARTIAL_INDEX = "<partial index>"
    """A subscript may take a part of another dimension than the first."""
    NONE_INDEX = "<None index>"
    """`None` may be one of the indices of a subscript."""
    BIT_OPERATOR = "<bits>"
    """There is an operator on bits or truth values, but for `&` between two."""
    VIEW_AS_DTYPE = "<view as a type>"
    """A `view` may be told a type."""
    INTEGER_SLOPE = "<slope without a point>"
    """A leaky or exponential rectifier may be given a number without a point, by the look of the text."""
    ARANGE_OF_FLOATS = "<arange of floats>"
    """`arange` may be told a type of floats, by the look of the text."""
    OVERRIDES_MODE = "<overrides mode>"
    """A method may be called `train` or `eval`, by the look of the text."""
    ITEM_WRITE = "<item = >"
    """Something is assigned to an item, `x[i] = v`, by the look of the text."""
    DIVIDES_BY_ONE = "<by one>"
    """A rounded quotient or a remainder may be taken by the number one, by the look of the text."""
    INVERTS = "<number over>"
    """A number may be divided by something that is no number, by the look of the text."""
    LOCAL_DROPOUT = "<dropout in passing>"
    """A dropout layer is called where it is built, or bound to a variable, by the look of the text."""
    NO_FORWARD = "<no forward>"
    """There is a module class at its top that derives from ``Module`` itself and has no ``forward``."""


_AMONG_WORDS = frozenset(
    {Trigger.SLICE_STEP, Trigger.PARTIAL_INDEX, Trigger.NONE_INDEX, Trigger.BIT_OPERATOR, Trigger.VIEW_AS_DTYPE}
    | {Trigger.ITEM_WRITE, Trigger.LOCAL_DROPOUT, Trigger.NO_FORWARD, Trigger.INTEGER_SLOPE}
    | {Trigger.ARANGE_OF_FLOATS, Trigger.OVERRIDES_MODE, Trigger.DIVIDES_BY_ONE, Trigger.INVERTS}
)
"""Those that may stand in a set with words, any of which will do."""


_LIVE_NEEDS = frozenset({"environment", "structure", "values", "run", "checkpoint", "conversion", "execution"})


class RuleError(Exception):
    """A rule that cannot be used; the message names it and says why."""


class Rule:
    """Base of all rules.

    ``source(self, subject)`` is annotated with the fact it asks about (``ModuleClass``, …) and yields
    diagnostics made by the subject; ``live(self, subject)`` is asked once about every live model (a ``LiveModel``). A rule has
    one of them or both. Rules hold no state: one instance serves every file.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    fixable: ClassVar[str] = ""
    """What its fix puts in, for the list of rules; empty when it has none."""
    advice: ClassVar[str] = ""
    """What to write instead: the help of findings that have neither a fix nor advice of their own."""
    supersedes: ClassVar[tuple[str, ...]] = ()
    """Codes of more general rules whose finding for the same attribute or statement gives way."""
    at_statements: ClassVar[bool] = False
    """Whether they give way at the same statement only, and not for the attribute wherever it is found."""
    wakes_on: ClassVar[Feature | None] = None
    """What a class must show at a look for this rule to be asked about it; None: the rule is always asked."""
    needs: ClassVar[tuple[str | Set[str], ...]] = ()
    """What code must hold, each of it, for a rule about ``Code`` or nodes of libcst to be asked: a word, one of a set, a ``Trigger``.

    ``name`` is a name anywhere, ``.name`` one behind a dot, ``~name`` one that is imported or an attribute of anything but ``self``."""
    only_modules: ClassVar[bool] = False
    """Whether a rule about ``Code`` asks module classes only, and nothing that stands outside of them."""
    only_forward: ClassVar[bool] = False
    """Whether a rule about ``Code`` asks for nothing but what ``forward`` runs; other methods are then not read for it."""
    only_inference: ClassVar[bool] = False
    """Whether it is about what an exported model runs: of what only training, evaluation or tests run it is worth knowing then."""
    answered_by: ClassVar[str] = ""
    """The class of the converter's that is what a finding asks for: where the project names the finding's attribute to it,
    as in ``ct.StateType(…, name="cache")``, the finding is worth knowing only."""
    default: ClassVar[bool] = True
    """Whether the rule runs when the user selects nothing."""
    live_needs: ClassVar[str] = "structure"
    """What its ``live`` side asks of a subject: ``environment`` (nothing but what is installed), ``structure`` (a model on the
    meta device will do), ``values``, ``run`` (one captured run), ``checkpoint``, ``conversion`` (coremltools' verdict), or ``execution``
    (the converted model, executed: see ``Subject.execution``); several stand with a space between them."""
    twin: ClassVar[str] = ""
    """What of ``torch.nn`` is to be put around the value that the statement of a live finding binds, where a run of the model
    so fixed proves it; or ``register_buffer``."""
    plugin: str = ""
    """The plug-in that it comes from, as that was named; empty for modellint's own."""
    silent: ClassVar[tuple[str, ...]] = ()
    """The routes (``trace``, ``export``) by which a model with an error of this rule converts without a word into something else."""
    hides: ClassVar[bool] = False
    """Whether a comparison on a few inputs may miss what such an error does, as it does a write that is lost: a route that the
    rule calls ``silent`` is then undecided where it seems to agree."""
    only_for: ClassVar[tuple[str, ...]] = ()
    """The destinations that it holds for, as was measured; empty for all."""
    reads_only_for: ClassVar[tuple[str, ...]] = ()
    """The destinations that its ``source`` side knows of, where these are fewer; empty for all that it holds for."""
    withdraws: ClassVar[bool] = False
    """Whether a live check that finds nothing takes back what source said of a statement that ran for every instance."""

    def found(
        self,
        message: str,
        span: Span | None,
        *,
        severity: Severity | None = None,
        fix: Fix | None = None,
        class_name: str | None = None,
        attribute: str | None = None,
        noqa_row: int | None = None,
        advice: str | None = None,
        operator: str | None = None,
    ) -> Diagnostic:
        """A finding of this rule; ``noqa_row`` is the last line that may suppress it, by default the span's."""
        return Diagnostic(
            code=self.code,
            name=self.name,
            severity=self.severity if severity is None else severity,
            message=message,
            path=None,
            span=span,
            fix=fix,
            class_name=class_name,
            attribute=attribute,
            noqa_row=span.end_row if noqa_row is None and span is not None else noqa_row,
            help=advice or (self.advice if fix is None else "") or None,
            operator=operator,
        )

    def with_fix(self, finding: Diagnostic, fix: Fix | None) -> Diagnostic:
        """A finding with another fix: where that has edits, its title says what to write, and not ``advice``."""
        lines = (finding.help or "").split("\n")
        told = "\n".join(line for line in lines if line != self.advice)
        return finding._replace(fix=fix, help=(told if fix is not None and fix.edits else finding.help) or None)

    def silent_by(self, finding: Diagnostic) -> tuple[str, ...]:
        """The routes by which the model converts without a word into something else, if a finding of this rule is an error."""
        return self.silent if finding.severity is Severity.ERROR else ()

    def may_hide(self, finding: Diagnostic) -> bool:
        """Whether a comparison on a few inputs may miss what a finding of this rule tells."""
        return self.hides

    def hints(self, operator: str) -> Iterable[Hint]:
        """What the rule knows of an operator (``aten::fmod``) beside whether it converts."""
        return ()

    def holds_for(self, destination: str) -> bool:
        """Whether it is to be asked about a live model that goes to a destination of this name."""
        return not self.only_for or destination in self.only_for

    def reads_for(self, destination: str) -> bool:
        """Whether it is to be asked about source that goes there."""
        return self.holds_for(destination) and (not self.reads_only_for or destination in self.reads_only_for)

    @property
    def scope(self) -> str:
        """The destinations that it holds for, in words; empty for all."""
        from modellint.settings import RUNTIMES

        if self.only_for:
            return f"for {' and '.join(RUNTIMES[name] for name in self.only_for)} alone"
        if self.reads_only_for:
            return f"in source for {' and '.join(RUNTIMES[name] for name in self.reads_only_for)} alone"
        return ""

    def needs_for(self, destination: Destination) -> tuple[str | Set[str], ...]:
        """``needs`` for a model that goes there."""
        return self.needs


class NoFinding(TypeError):
    """A rule answers with something else than findings; ``place`` is the file and line of the method that does."""

    def __init__(self, message: str, method: Callable[..., object]) -> None:
        super().__init__(message)
        code = getattr(method, "__code__", None)
        file = "" if code is None else code.co_filename.replace("\\", "/")
        # The folder and the name, as of places in tracebacks: the same on every machine.
        self.place = "" if code is None else f"{'/'.join(file.split('/')[-2:])}:{code.co_firstlineno}"


def answers(ask: Callable[..., Iterable[Diagnostic]], *about: object) -> Iterator[Diagnostic]:
    """What a rule by others says when it is asked: findings, or an exception; it cannot end the program."""
    try:
        told = ask(*about)
        if isinstance(told, Diagnostic) or not isinstance(told, Iterable):
            kind = "a finding" if isinstance(told, Diagnostic) else type(told).__name__
            raise NoFinding(f"`{ask.__name__}` returns {kind}; a rule yields its findings", ask)
        for finding in told:
            if not isinstance(finding, Diagnostic):
                kind = type(finding).__name__
                raise NoFinding(f"a rule yields findings, made by what it is asked about, and not {kind}", ask)
            yield finding
    except SystemExit as error:
        # So a signal ends the program.
        if isinstance(error.code, int) and error.code > 128:
            raise
        raise RuntimeError("SystemExit").with_traceback(error.__traceback__) from None


class Page:
    """A rule's docstring, taken apart into its summary and sections."""

    __slots__ = ("sections", "summary")

    def __init__(self, summary: str, sections: dict[str, str]) -> None:
        self.summary = summary
        self.sections = sections

    @classmethod
    def of(cls, rule: type[Rule]) -> Page:
        """Read a rule's page. Raises ``RuleError`` when a section is missing, empty or out of order."""
        text = inspect.getdoc(rule) or ""
        parts = re.split(r"(?m)^## (.+)$", text)
        titles = [title.strip() for title in parts[1::2]]
        bodies = [body.strip("\n") for body in parts[2::2]]
        if titles != list(SECTIONS):
            raise RuleError(
                f"the page of {rule.__name__} must have the sections {', '.join(SECTIONS)}; it has {', '.join(titles) or 'none'}"
            )
        for title, body in zip(titles, bodies, strict=True):
            if not body.strip():
                raise RuleError(f"the section {title!r} of {rule.__name__} is empty")
        return cls(parts[0].strip(), dict(zip(titles, bodies, strict=True)))

    @classmethod
    def as_written(cls, rule: type[Rule]) -> Page:
        """A page to be shown: one that is not as it must be, as a plug-in's may be, is all summary."""
        try:
            return cls.of(rule)
        except RuleError:
            return cls(inspect.cleandoc(vars(rule).get("__doc__") or "It has no page."), {})

    def example(self, title: str) -> str:
        """The Python of ``Bad`` or ``Good``: what stands between the code fences."""
        match = re.search(r"```python\n(.*?)```", self.sections[title], re.DOTALL)
        if match is None:
            raise RuleError(f"the section {title!r} holds no ```python block")
        return match.group(1)


class Registration(NamedTuple):
    """What a rule is asked about: the annotations of its two methods, read."""

    fact: str = ""
    """``ModuleClass`` or ``Code``, of which ``source`` is asked; ``CSTNode`` for nodes of libcst; empty without a source side."""
    nodes: tuple[str, ...] = ()
    """The names of these nodes: ``Call`` for ``cst.Call``."""


_SOURCE_FACTS = ("ModuleClass", "Code")
_LIVE_FACTS = ("LiveModel",)
_FACTS_COME_FROM = ("", "authoring", "modellint.authoring")
_NODES_COME_FROM = ("cst", "libcst")


@cache
def registration_of(rule: Rule) -> Registration:
    """Read what a rule is asked about. Raises ``RuleError`` for an annotation that matches nothing: nobody would ever ask the rule."""
    told: Registration | None = rule.__dict__.get("registration")
    if told is not None:
        return told
    if hasattr(rule, "live"):
        _fact_of(type(rule), "live", _LIVE_FACTS)
    if not hasattr(rule, "source"):
        return Registration()
    return _fact_of(type(rule), "source", _SOURCE_FACTS)


def _fact_of(rule: type[Rule], method: str, facts: tuple[str, ...]) -> Registration:
    function = getattr(rule, method)
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount < 2:
        raise _misread(rule, method, facts, "it takes none")
    arguments = code.co_varnames[1 : code.co_argcount]
    try:
        annotation = function.__annotations__.get(arguments[0])
    except NameError as error:
        raise _misread(rule, method, facts, f"it cannot be evaluated: {error}") from None
    if annotation is None and len(facts) == 1 and len(arguments) == 1:
        # There is nothing else that it could be about.
        return Registration(facts[0])
    if annotation is None:
        raise _misread(rule, method, facts, f"`{arguments[0]}` has no annotation")
    names = _dotted_names(annotation, function.__globals__)
    shown = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    owners = {name.rpartition(".")[0] for name in names}
    last = tuple(name.rpartition(".")[2] for name in names)
    if len(names) == 1 and owners <= {*_FACTS_COME_FROM} and last[0] in facts:
        if len(arguments) != 1:
            raise _misread(rule, method, facts, f"it is handed one argument, and takes {len(arguments)}")
        return Registration(last[0])
    if method == "source" and owners and owners <= {*_NODES_COME_FROM}:
        if len(arguments) != 2:
            raise _misread(rule, method, facts, "with a node it is handed `file: CstFile`, too")
        unknown = [name for name in last if name not in _node_names()]
        if not unknown:
            return Registration("CSTNode", last)
        raise _misread(rule, method, facts, f"libcst has no node `{unknown[0]}`")
    raise _misread(rule, method, facts, f"it is `{shown}`")


def _check_needs(rule: type[Rule], fact: str) -> None:
    """Refuse words that nothing could hold, and those that say nothing of what the rule is about."""
    about_nodes = fact == "CSTNode"
    if fact == "ModuleClass" and (rule.needs or rule.only_modules or rule.only_forward):
        raise RuleError(
            f"{_file_of(rule)}: {rule.code} ({rule.__name__}): `needs`, `only_modules` and `only_forward` say nothing of module classes; "
            "`wakes_on` does"
        )
    said = ""
    if not isinstance(rule.needs, tuple):
        said = "it must be a tuple, each item of which code has to hold; of one item: `(item,)`"
    elif any(not isinstance(need, str) and _is_mixed(need) for need in rule.needs):
        said = "a trigger for which syntax is looked at stands alone, not in a set with others"
    elif about_nodes and any(_is_mixed({need} if isinstance(need, str) else need) for need in rule.needs):
        said = "a rule about nodes of libcst is woken by the words of the file, and by no trigger for which syntax is looked at"
    if said:
        raise RuleError(f"{_file_of(rule)}: {rule.code} ({rule.__name__}): `needs`: {said}")
    if about_nodes and (rule.only_modules or rule.only_forward or rule.wakes_on):
        raise RuleError(
            f"{_file_of(rule)}: {rule.code} ({rule.__name__}): `only_modules`, `only_forward` and `wakes_on` say nothing of nodes of libcst"
        )


def _is_mixed(need: Set[str]) -> bool:
    return any(word.startswith("<") and word not in _AMONG_WORDS for word in need)


def _file_of(rule: type[Rule], method: str = "") -> str:
    """The file that defines a rule, and the line of its class or of one of its methods."""
    file: str | None = getattr(sys.modules.get(rule.__module__), "__file__", None)
    if file is None:
        return rule.__module__
    function = vars(rule).get(method)
    if (code := getattr(function, "__code__", None)) is not None:
        return f"{file}:{code.co_firstlineno}"
    try:
        return f"{file}:{inspect.getsourcelines(rule)[1]}"
    except (OSError, TypeError, SyntaxError):
        return file


def _misread(rule: type[Rule], method: str, facts: tuple[str, ...], said: str) -> RuleError:
    allowed = " or ".join(f"`{fact}`" for fact in facts) + " of modellint.authoring"
    if method == "source":
        allowed += ", a node of libcst (`cst.Call`), or a union of such nodes"
    return RuleError(
        f"{_file_of(rule, method)}: {rule.code} ({rule.__name__}) would never be asked: the argument of `{method}` must be annotated "
        f"with {allowed}; {said}"
    )


def _dotted_names(annotation: object, names: dict[str, object]) -> list[str]:
    """The dotted names of what an annotation may be, by where they come from if that is known: `cst.Call | cst.Name`."""
    if isinstance(annotation, str):
        if annotation in (*_SOURCE_FACTS, *_LIVE_FACTS) and annotation not in names:
            return [annotation]
        import ast

        try:
            return _names_in(ast.parse(annotation.strip(), mode="eval").body, names)
        except SyntaxError:
            return [annotation]
    if isinstance(annotation, type):
        return [_home(annotation)]
    parts = getattr(annotation, "__args__", ())
    return [name for part in parts for name in _dotted_names(part, names)] or [str(annotation)]


def _names_in(node: ast.expr, names: dict[str, object]) -> list[str]:
    import ast

    match node:
        case ast.Constant(value=str() as quoted):
            return _dotted_names(quoted, names)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_names_in(left, names), *_names_in(right, names)]
        case ast.Subscript(value=ast.Name(id="Union") | ast.Attribute(attr="Union"), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return [name for part in parts for name in _names_in(part, names)]
        case ast.Name(id=name) if isinstance(value := names.get(name), type):
            return [_home(value)]
        case _:
            return [ast.unparse(node)]


def _home(kind: type) -> str:
    """The dotted name of a class, as an annotation names it."""
    if kind.__module__.startswith("libcst."):
        return f"libcst.{kind.__name__}"
    # The facts are defined all over the machine, and are all to be had from one module.
    return kind.__name__ if kind.__module__.startswith("modellint.") else f"{kind.__module__}.{kind.__name__}"


@cache
def _node_names() -> frozenset[str]:
    """The nodes of the installed libcst, without importing it: that costs more than a check of a file."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("libcst")
    text = Path(spec.origin).read_text("utf-8") if spec is not None and spec.origin is not None else ""
    imported = re.findall(r"from libcst\._nodes\.\w+ import (?:\(([^)]*)\)|(.*))", text)
    return frozenset(re.findall(r"\w+", " ".join(map(" ".join, imported)))) | {"CSTNode"}


def rules_of(package: ModuleType) -> Iterator[type[Rule]]:
    """The classes of rules that a module, or a package with all its files, defines."""
    yield from rules_in(package)
    for module, _ in module_files(package):
        if _ANY_FILE.match(module.rpartition(".")[2]):
            yield from rules_in(importlib.import_module(module))


def module_files(package: ModuleType) -> Iterator[tuple[str, str]]:
    """The modules of a package, in which rules are looked for, each with its file."""
    # By the folder's listing: `pkgutil` would cost as much as all else that is imported here.
    for place in getattr(package, "__path__", ()):
        for folder, folders, files in os.walk(place):
            folders[:] = sorted(name for name in folders if name.isidentifier() and name not in _NO_RULES)
            inside = os.path.relpath(folder, place).replace(os.sep, ".")
            prefix = package.__name__ if inside == "." else f"{package.__name__}.{inside}"
            for file in sorted(files):
                name = file.removesuffix(".py")
                if name != file and name.isidentifier() and name != "__init__":
                    yield f"{prefix}.{name}", f"{folder}{os.sep}{file}"


def rules_in(module: ModuleType) -> Iterator[type[Rule]]:
    """The classes of rules that a module defines."""
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Rule)
            and value.__module__ == module.__name__
            and "code" in vars(value)
        ):
            yield value


def clash(kind: type[Rule], registered: Rule, attribute: str) -> RuleError:
    """The error for two rules with one code, or one name."""
    return RuleError(
        f"{_file_of(kind)}: {kind.__name__}: the {attribute} {getattr(kind, attribute)} is that of another rule, in "
        f"{_file_of(registered.__class__)}; give one of them another"
    )


def admit(kind: type[Rule], rules: dict[str, Rule]) -> Rule:
    """Put a rule among others. Raises ``RuleError`` for one that cannot be used, and for a code that another has."""

    def where() -> str:
        # To look for the line takes reading the file, which only an error is worth.
        return f"{_file_of(kind)}: {kind.__name__}"

    if not isinstance(kind.code, str) or not _CODE.match(kind.code):
        raise RuleError(f"{where()}: {kind.code!r} is no code: three capitals and three digits")
    for attribute, needed in (("name", str), ("severity", Severity)):
        if not isinstance(getattr(kind, attribute, None), needed):
            raise RuleError(f"{where()} ({kind.code}): it needs a `{attribute}`, a {needed.__name__}")
    if not (hasattr(kind, "source") or hasattr(kind, "live")):
        raise RuleError(f"{where()} ({kind.code}) would never be asked: it has neither `source` nor `live`")
    if unknown := {*kind.live_needs.split()} - _LIVE_NEEDS:
        raise RuleError(
            f"{where()} ({kind.code}): `live_needs`: {', '.join(sorted(unknown))} is none of {', '.join(sorted(_LIVE_NEEDS))}"
        )
    if kind.code in rules:
        raise clash(kind, rules[kind.code], "code")
    rule = kind()
    _check_needs(kind, registration_of(rule).fact)
    rules[kind.code] = rule
    return rule
