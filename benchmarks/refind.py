"""One site, undone: is it found, is it fixed, and is the fixed text sound?"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from build import Outcome
from classes import parse
from engine import check
from modellint.results.diagnostic import Applicability, Diagnostic
from modellint.source.fix import Fixed, fix_text
from modellint.source.syntax.edits import Change, changes_of, shareable
from modellint.source.syntax.source_text import SourceText
from unfix import SUPER_INIT, Site
from unfix_flow import GUARD, SIZE, VIEW, WHERE
from unfix_numbers import DEVICE, LITERAL
from unfix_state import ADDED_CAST, BUFFER, CAST, TRAINING
from uses import CONTAINERS

CODES = {
    "ModuleList": {"REG001", "REG003"},
    "ModuleDict": {"REG002"},
    "ParameterList": {"REG004"},
    "ParameterDict": {"REG005"},
    SUPER_INIT: {"REG008"},
    BUFFER: {"REG006", "REG009", "REG015"},
    TRAINING: {"MOD002"},
    CAST: {"REG007"},
    ADDED_CAST: {"REG007"},
    WHERE: {"MUT002", "MUT003"},
    VIEW: {"MUT001"},
    GUARD: {"MUT005", "MUT006", "MUT008"},
    SIZE: {"FLW001"},
    LITERAL: {"NUM001"},
    DEVICE: {"DEV001"},
}
OF_CLASS = {SUPER_INIT, TRAINING, WHERE, VIEW, GUARD, SIZE, LITERAL, DEVICE}
"""Kinds whose findings name no attribute."""

Key = tuple[str, str | None, str | None]


@dataclass(slots=True)
class Result:
    """What became of one site."""

    tree: str
    path: str
    site: Site
    line: str
    found: bool = False
    excluded: str = ""
    new: tuple[str, ...] = ()
    """Codes and rows of all findings that the original text does not have."""
    tried_fix: bool = False
    applicability: str = ""
    parses: bool = False
    stable: bool = False
    outside_identical: bool = False
    gone: bool = False
    same_structure: bool = False
    problem: str = ""
    fixed: str | None = None
    built: Outcome | None = None


class Referee:
    """Judges the sites of one file; the original text is checked once."""

    def __init__(self, source: SourceText, path: Path, tree: str, root: Path) -> None:
        self.source = source
        self.path = path
        self.tree = tree
        self.root = root
        self._known: dict[str, tuple[Diagnostic, ...]] = {}

    def findings(self, text: str) -> tuple[Diagnostic, ...]:
        """What the linter says about a text; remembered, since fixing asks for the same texts again."""
        if text not in self._known:
            source = SourceText(text, self.source.encoding, self.source.bom)
            self._known[text] = check(self.root, self.path, source)
        return self._known[text]

    @cached_property
    def before(self) -> set[Key]:
        """The findings of the original, by what they are about."""
        return {_key(finding) for finding in self.findings(self.source.text)}

    def new(self, text: str) -> list[Diagnostic]:
        """The findings of a text that the original does not have."""
        return [finding for finding in self.findings(text) if _key(finding) not in self.before]

    def result(self, site: Site, fix: bool, keep: bool) -> Result:
        self._known.clear()
        text = site.undo(self.source.text)
        result = Result(self.tree, str(self.path), site, self.source.line(site.row))
        if any(self._is_about(key, site) for key in self.before):
            result.excluded = "reported in the original"
            return result
        new = self.new(text)
        hits = [finding for finding in new if _hits(finding, site, text, self.source.text)]
        result.found = bool(hits)
        result.new = tuple(f"{finding.code} {finding.span.row if finding.span else '?'}" for finding in new)
        if fix and hits:
            self._fix(result, site, text, hits)
            if not keep:
                result.fixed = None
        return result

    def _is_about(self, key: Key, site: Site) -> bool:
        code, cls, attribute = key
        if code not in CODES[site.kind]:
            return False
        if site.kind in OF_CLASS:
            return not site.class_name or _same_class(cls, site.class_name)
        return any(_same_class(cls, binding.class_name) and attribute == binding.attribute for binding in site.bindings)

    def _fix(self, result: Result, site: Site, text: str, hits: list[Diagnostic]) -> None:
        """Fix what is new, and examine the outcome."""
        result.tried_fix = True

        def look(source: SourceText) -> tuple[Diagnostic, ...]:
            return tuple(self.new(source.text))

        unfixed = SourceText(text, self.source.encoding, self.source.bom)
        fixed = fix_text(unfixed, look)
        unsafe = fixed.text == text
        if unsafe:
            fixed = fix_text(unfixed, look, unsafe=True)
        result.problem = fixed.problem or ""
        if fixed.text == text:
            return
        result.applicability = "unsafe" if unsafe else "safe"
        tree = parse(fixed.text)
        result.parses = tree is not None
        again = fix_text(SourceText(fixed.text, self.source.encoding, self.source.bom), look, unsafe)
        result.stable = again.text == fixed.text
        result.outside_identical = self._outside_identical(unfixed, look(unfixed), fixed, unsafe)
        left = {_key(finding) for finding in fixed.remaining}
        result.gone = not any(_key(hit) in left for hit in hits)
        original = parse(site.restore(self.source.text))
        result.same_structure = tree is not None and original is not None and _canonical(tree) == _canonical(original)
        result.fixed = fixed.text

    def _outside_identical(
        self, unfixed: SourceText, findings: Iterable[Diagnostic], fixed: Fixed, unsafe: bool
    ) -> bool:
        """Whether the pieces between the edits are all in the fixed text, in order, and the contents between them."""
        wanted = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
        fixes = [found.fix for found in findings if found.fix is not None and found.fix.applicability in wanted]
        changes: list[Change] = []
        for fix in fixes:
            # With the file's own line ends.
            changes += [one for one in changes_of(fix, unfixed) if one not in changes or not shareable(one)]
        at, position = 0, 0
        for start, end, content in sorted(changes, key=lambda change: (change.start, change.end)):
            piece = unfixed.text[position:start]
            if not fixed.text.startswith(piece, at):
                return False
            at += len(piece)
            if not fixed.text.startswith(content, at):
                return False
            at += len(content)
            position = end
        rest = unfixed.text[position:]
        return fixed.text[at:] == rest


def _key(finding: Diagnostic) -> Key:
    return finding.code, finding.class_name, finding.attribute


def _same_class(said: str | None, name: str) -> bool:
    return said is not None and said.rpartition(".")[2] == name


def _hits(finding: Diagnostic, site: Site, text: str, original: str) -> bool:
    """Whether a finding of the undone text is about the site."""
    if finding.code not in CODES[site.kind]:
        return False
    row = finding.span.row if finding.span else 0
    # Rows below the site have moved by what the undoing removed.
    shift = text.count("\n") - original.count("\n")
    inside = site.class_row <= row <= site.class_end_row + shift
    if site.kind == SUPER_INIT:
        return inside
    for binding in site.bindings:
        start = binding.row + (shift if binding.row > site.row else 0)
        end = binding.end_row + (shift if binding.end_row > site.row else 0)
        if start <= row <= end:
            return True
        if inside and _same_class(finding.class_name, binding.class_name) and finding.attribute == binding.attribute:
            return True
    return False


class _Canonical(ast.NodeTransformer):
    """Strips what may be spelt in several ways.

    Import lines, ``pass``, the path to a container, ``list(x)`` inside it; whether a buffer is saved, and which of the
    two ways makes it one; whether a dropout gets its mode by name.
    """

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CONTAINERS:
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            return ast.Call(ast.Name(name), [_plain(value) for value in values if not _is_empty(value)], [])
        if name == "__init__" and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            node.func.value.args = []
        if name.endswith(("dropout", "dropout1d", "dropout2d", "dropout3d")) and len(node.args) == 3:
            node.keywords.append(ast.keyword("training", node.args.pop()))
        node.keywords.sort(key=lambda keyword: keyword.arg or "")
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Attribute(value=owner, attr="register_buffer"), args=arguments, keywords=keywords):
                words = {keyword.arg: keyword.value for keyword in keywords}
                given = [*arguments, *(words[name] for name in ("name", "tensor") if name in words)]
                return _buffer(owner, given)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr=name)], value=ast.Call(args=[value])):
                called = node.value.func if isinstance(node.value, ast.Call) else node
                if isinstance(called, ast.Attribute | ast.Name) and "Buffer" in (
                    getattr(called, "attr", ""),
                    getattr(called, "id", ""),
                ):
                    return _buffer(owner, [ast.Constant(name), value])
        return node


def _buffer(owner: ast.expr, given: list[ast.expr]) -> ast.AST:
    return ast.Expr(ast.Call(ast.Name("register_buffer"), [owner, *given[:2]], []))


def _plain(value: ast.expr) -> ast.expr:
    """A literal for ``list(literal)``, a list for a generator."""
    match value:
        case ast.Call(func=ast.Name(id="list" | "dict"), args=[only], keywords=[]):
            return _plain(only)
    if isinstance(value, ast.GeneratorExp):
        return ast.ListComp(value.elt, value.generators)
    return value


def _is_empty(value: ast.expr) -> bool:
    return (isinstance(value, ast.List | ast.Tuple) and not value.elts) or (
        isinstance(value, ast.Dict) and not value.keys
    )


def _canonical(tree: ast.Module) -> str:
    return ast.dump(_Canonical().visit(tree))
