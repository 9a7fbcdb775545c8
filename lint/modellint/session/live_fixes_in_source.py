"""Proven fixes of a live model as fixes of source: at the statement that binds the attribute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modellint.results.applied_fix import BIT_EQUAL
from modellint.results.diagnostic import Diagnostic, Fix
from modellint.source.project.container_attribute_uses import DICT_ONLY, LIST_ONLY
from modellint.source.project.symbols import IndexedFile
from modellint.source.syntax.edit_builder import Rewriter
from modellint.source.syntax.parse import Unparsable, parse
from modellint.source.syntax.source_text import SourceText, Undecodable

if TYPE_CHECKING:
    from modellint.results.applied_fix import Applied
    from modellint.rule import Rule


def with_proven_fixes(
    findings: Iterable[Diagnostic], applied: Sequence[Applied], rules: Mapping[str, Rule]
) -> Iterator[Diagnostic]:
    """The findings of a live check; of those that a fix of the model answers, to the bit, the fix says so.

    Where the rule tells what is to be put around the bound value, and the statement allows it, the fix has the edits; otherwise
    it has none, and means that a fix of the same finding in source may be applied.
    """
    files: dict[str, IndexedFile | None] = {}
    for finding in findings:
        answers = [change for change in applied if change.code == finding.code and change.exactness == BIT_EQUAL]
        if finding.path is None or finding.fix is not None or not _is_answered(finding, answers):
            yield finding
            continue
        fix = Fix("Proven on the model", ())
        container = rules[finding.code].twin if finding.code in rules else ""
        if container:
            if finding.path not in files:
                files[finding.path] = _indexed(finding.path)
            file = files[finding.path]
            fitting = [
                change
                for change in answers
                # What is nested is not to be wrapped at one place.
                if _MADE.get(container, f"`{container}`") in change.title
                and not any("][" in place for place in change.modules)
            ]
            if not _is_answered(finding, fitting):
                yield finding
                continue
            fix = (_written(file, finding, container) if file is not None else None) or fix
        yield rules[finding.code].with_fix(finding, fix) if finding.code in rules else finding.with_fix(fix)


def _is_answered(finding: Diagnostic, applied: Sequence[Applied]) -> bool:
    """Whether every instance that shows the finding was fixed."""
    places = [place for fix in applied for place in fix.modules]

    def is_fixed(module: str) -> bool:
        whole = f"{module}.{finding.attribute}" if module else str(finding.attribute)
        return any(place in (module, whole) or place.startswith((f"{whole}[", f"{whole}.")) for place in places)

    return bool(places) and all(map(is_fixed, finding.modules))


def _indexed(path: str) -> IndexedFile | None:
    try:
        source = SourceText.decode(Path(path).read_bytes())
        return IndexedFile(path, source, parse(source.text))
    except (OSError, Undecodable, Unparsable, RecursionError):
        return None


_MADE = {"register_buffer": "made a buffer of the tensor, which is not saved"}
"""How the fix of a model says that it did what a rule's ``twin`` does, where that names no container."""


def _written(file: IndexedFile, finding: Diagnostic, container: str) -> Fix | None:
    """The value that a statement binds to ``self.attribute``, in ``nn.<container>``; None where the class needs a plain one."""
    bound = _bound(file, finding)
    if bound is None or finding.attribute is None:
        return None
    function, statement, cls = bound
    value = statement.value
    if container == "register_buffer":
        if function.name != "__init__":
            return None
        call = f'{function.args.args[0].arg}.register_buffer("{finding.attribute}", '
        edits = Rewriter(file).call_with(statement, value, call, ", persistent=False)")
        return Fix("Register a buffer that is not saved", edits)
    lacks = LIST_ONLY if container.endswith("List") else DICT_ONLY
    uses = file.uses(cls).get(finding.attribute)
    if uses is not None and uses.needs_plain(lacks):
        return None
    if re.search(rf"\.\s*{re.escape(finding.attribute)}\s*\.\s*({'|'.join(sorted(lacks))})\s*\(", file.source.text):
        return None
    rewriter = Rewriter(file)
    spelling = rewriter.spelling(container, function)
    if spelling is None:
        return None
    title = f"Wrap `self.{finding.attribute}` in `{spelling.text}`; adds `state_dict` keys"
    return Fix(title, (*rewriter.wrap(value, spelling.text), *spelling.imports))


def _bound(file: IndexedFile, finding: Diagnostic) -> tuple[ast.FunctionDef, ast.Assign, ast.ClassDef] | None:
    """The method, the one statement that binds the attribute to something, if it is the finding's, and the class."""
    row = finding.span.row if finding.span is not None else 0
    for cls in ast.walk(file.tree):
        if not isinstance(cls, ast.ClassDef) or cls.name != finding.class_name or not _covers(cls, row):
            continue
        stores = [
            (function, statement)
            for function in cls.body
            if isinstance(function, ast.FunctionDef)
            for statement in ast.walk(function)
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))
            and any(_is_attribute(target, finding.attribute) for target in _targets(statement))
            and not (isinstance(statement.value, ast.Constant) and statement.value.value is None)
        ]
        match stores:
            case [(function, ast.Assign(targets=[_], value=value) as statement)] if statement.lineno == row:
                # What a local holds may be added to later.
                return None if isinstance(value, ast.Name) or not function.args.args else (function, statement, cls)
    return None


def _covers(cls: ast.ClassDef, row: int) -> bool:
    return cls.lineno <= row <= (cls.end_lineno or row)


def _targets(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _is_attribute(target: ast.expr, name: str | None) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in ast.walk(target))
