"""One file as libcst reads it: the facts of rules that are asked about its nodes, and their fixes as edits of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, QualifiedNameProvider

from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span
from modellint.source.syntax.text import SourceText

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.settings import Destination

    Replacement: TypeAlias = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]


class CstFile:
    """A file as libcst reads it, with places, names and parents of its nodes, each worked out when it is first asked for."""

    def __init__(self, source: SourceText, path: str, destination: Destination) -> None:
        self.path = path
        self.destination = destination
        self._newline = source.newline
        # Rows and columns are the same whatever the line ends are, and libcst loses a lone CR at the end of a file.
        self._source = SourceText(source.text.replace("\r\n", "\n").replace("\r", "\n"))
        self._wrapper = MetadataWrapper(cst.parse_module(self._source.text))
        self.module = self._wrapper.module

    def nodes(self) -> Iterator[cst.CSTNode]:
        """Every node of the file, whitespace and comments among them."""
        pending: list[cst.CSTNode] = [self.module]
        while pending:
            node = pending.pop()
            yield node
            for name in node.__dataclass_fields__:
                value = getattr(node, name)
                parts = value if isinstance(value, (list, tuple)) else (value,)
                pending.extend(part for part in parts if isinstance(part, cst.CSTNode))

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node stands, without the whitespace and comments around it."""
        place = self._positions[node]
        return Span(place.start.line, place.start.column + 1, place.end.line, place.end.column + 1)

    def text(self, node: cst.CSTNode) -> str:
        """A node, of the file or a new one, as it is written."""
        return self.module.code_for_node(node)

    def names(self, node: cst.CSTNode) -> frozenset[str]:
        """The dotted names that a node may stand for, by the file's imports: ``torch.load`` for `load` behind `from torch import load`."""
        return frozenset(name.name for name in _value(self._names, node) or ())

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What a node stands in."""
        parent: cst.CSTNode | None = _value(self._parents, node)
        return parent

    def finding(
        self,
        rule: Rule,
        node: cst.CSTNode,
        message: str,
        *,
        replacement: Replacement | None = None,
        title: str | None = None,
        applicability: Applicability = Applicability.UNSAFE,
        severity: Severity | None = None,
        advice: str | None = None,
    ) -> Diagnostic:
        """A finding of ``rule`` at a node of the file, and the fix that puts ``replacement`` in its place.

        ``replacement`` is what libcst's transformers return: another node, ``cst.RemoveFromParent()``, or several nodes in a
        ``cst.FlattenSentinel``. ``title`` says what the fix does, by default what is written instead.
        """
        span = self.span(node)
        fix = None
        if replacement is not None and (edit := self._edit(node, replacement)) is not None:
            fix = Fix(title or self._title(replacement), (edit,), applicability)
        row = span.end_row
        statement: cst.CSTNode | None = node
        while statement is not None and not isinstance(statement, cst.BaseCompoundStatement):
            if isinstance(statement, cst.SimpleStatementLine):
                row = self.span(statement).end_row
                break
            statement = self.parent(statement)
        return rule.found(message, span, severity=severity, fix=fix, noqa_row=row, advice=advice)

    def _title(self, replacement: Replacement) -> str:
        if not isinstance(replacement, cst.CSTNode):
            return "Remove it" if isinstance(replacement, cst.RemovalSentinel) else "Replace it"
        text = self.text(replacement).strip()
        return f"Replace by `{text}`" if len(text) < 60 and "\n" not in text else "Replace it"

    def _edit(self, node: cst.CSTNode, replacement: Replacement) -> Edit | None:
        """The smallest edit of the text that puts something in the place of a node; None where it is the same."""
        before, start = self._source.text, 0
        span = self.span(node)
        first, last = self._source.offset(span.row, span.column), self._source.offset(span.end_row, span.end_column)
        if isinstance(replacement, cst.CSTNode) and self.text(node) == before[first:last]:
            before, after, start = before[first:last], self.text(replacement), first
        else:
            # What stands around a statement, such as its indentation, is written by what it stands in.
            after = self._code_with(node, replacement)
        if before == after:
            return None
        same = _shared(before, after)
        left, right = before[same:], after[same:]
        behind = _shared(left[::-1], right[::-1])
        content = right[: len(right) - behind]
        edit = self._source.replace(start + same, start + same + len(left) - behind, content)
        return edit._replace(content=content.replace("\n", self._newline))

    def _code_with(self, node: cst.CSTNode, replacement: Any) -> str:
        removed = isinstance(replacement, cst.RemovalSentinel)
        module = self.module.deep_remove(node) if removed else self.module.deep_replace(node, replacement)
        assert isinstance(module, cst.Module)
        return module.code

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, cst.metadata.CodeRange]:
        return self._wrapper.resolve(PositionProvider)

    @cached_property
    def _names(self) -> Mapping[cst.CSTNode, object]:
        return self._wrapper.resolve(QualifiedNameProvider)

    @cached_property
    def _parents(self) -> Mapping[cst.CSTNode, object]:
        return self._wrapper.resolve(ParentNodeProvider)


def _value(metadata: Mapping[cst.CSTNode, Any], node: cst.CSTNode) -> Any:
    """What a provider says of a node; some work it out when they are asked."""
    value = metadata.get(node)
    return value() if callable(value) else value


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
