"""One file as libcst reads it: the facts of rules that are asked about its nodes, and their fixes as edits of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, QualifiedNameProvider

from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span
from modellint.source.syntax.source_text import SourceText

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
        return _nodes_in(self.module)

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
        ``cst.FlattenSentinel``. ``title`` says what the fix does, by default what is written instead. Comments and blank lines
        above a statement, and the comment behind it, stay. A fix that deletes a comment all the same is unsafe at most.
        """
        span = self.span(node)
        fix = None
        if replacement is not None:
            edit, deletes_comment = self._edit(node, replacement)
            if deletes_comment and applicability is Applicability.SAFE:
                applicability = Applicability.UNSAFE
            if edit is not None:
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

    def _edit(self, node: cst.CSTNode, replacement: Replacement) -> tuple[Edit | None, bool]:
        """The smallest edit of the text that puts something in the place of a node, None where it is the same; does it delete a comment?"""
        before, start = self._source.text, 0
        first, last = self._offsets(node)
        if isinstance(replacement, cst.RemovalSentinel):
            removal = self._removal(node)
            if removal is not None:
                first, last, after = removal
                return self._minimal(first, before[first:last], after), self._holds_comment(first, last)
            lost = _comments([node])
            after = self._code_without(node)
        elif isinstance(replacement, cst.CSTNode) and self.text(node) == before[first:last]:
            lost = _comments([node]) - _comments([replacement])
            before, after, start = before[first:last], self.text(replacement), first
        else:
            nodes = _with_surroundings(node, replacement)
            lost = _comments([node]) - _comments(nodes)
            # What stands around a statement, such as its indentation, is written by what it stands in.
            several: Any = nodes[0] if len(nodes) == 1 else cst.FlattenSentinel(nodes)
            module = self.module.deep_replace(node, several)
            assert isinstance(module, cst.Module)
            after = module.code
        return self._minimal(start, before, after), bool(lost) and not isinstance(replacement, cst.Comment)

    def _minimal(self, start: int, before: str, after: str) -> Edit | None:
        """The edit that makes one text of another that stands at an offset, without what both begin and end with."""
        if before == after:
            return None
        same = _shared(before, after)
        left, right = before[same:], after[same:]
        behind = _shared(left[::-1], right[::-1])
        content = right[: len(right) - behind]
        edit = self._source.replace(start + same, start + same + len(left) - behind, content)
        return edit._replace(content=content.replace("\n", self._newline))

    def _offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        span = self.span(node)
        return self._source.offset(span.row, span.column), self._source.offset(span.end_row, span.end_column)

    def _holds_comment(self, first: int, last: int) -> bool:
        """Whether a comment begins between two offsets."""
        comments = (node for node in self.nodes() if isinstance(node, cst.Comment))
        return any(first <= self._offsets(comment)[0] < last for comment in comments)

    def _removal(self, node: cst.CSTNode) -> tuple[int, int, str] | None:
        """From where to where text is replaced, and by what, to remove a statement and nothing around it; None for other nodes."""
        around = self.parent(node)
        if isinstance(around, cst.Expr) and around.value is node:
            # The whole of a statement, which is nothing without it.
            node, around = around, self.parent(around)
        text = self._source.text
        first, last = self._offsets(node)
        if isinstance(node, cst.BaseSmallStatement):
            if not isinstance(around, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
                return None
            at = next(at for at, statement in enumerate(around.body) if statement is node)
            if at + 1 < len(around.body):
                return first, self._offsets(around.body[at + 1])[0], ""
            if at:
                return self._offsets(around.body[at - 1])[1], last, ""
            if isinstance(around, cst.SimpleStatementSuite):
                return first, last, "pass"
            node, around = around, self.parent(around)
        if not isinstance(node, cst.BaseStatement) or not isinstance(around, (cst.Module, cst.IndentedBlock)):
            return None
        if isinstance(around, cst.IndentedBlock) and len(around.body) == 1:
            return first, last, "pass"
        begin = text.rfind("\n", 0, first) + 1
        end = (text.find("\n", last) + 1) or len(text)
        # A statement may end with `;`, which is none of its own.
        behind = text[last:end].lstrip(" \t\f;")
        if text[begin:first].strip(" \t\f") or behind[:1] not in ("", "\n", "#"):
            return None
        return (first, end - len(behind), "") if behind.startswith("#") else (begin, end, "")

    def _code_without(self, node: cst.CSTNode) -> str:
        try:
            module = self.module.deep_remove(node)
        except Exception as error:
            raise ValueError(
                f"cst.RemoveFromParent(): `{self._shown(node)}` cannot be taken out of `{self._shown(self.parent(node))}`; "
                "hand `finding` the statement that is to go, such as file.parent(node)"
            ) from error
        assert isinstance(module, cst.Module)
        return module.code

    def _shown(self, node: cst.CSTNode | None) -> str:
        """The text of a node in a line, cut where it is long."""
        text = " ".join(self.module.code_for_node(node).split()) if node is not None else "the file"
        return text if len(text) <= 60 else text[:60] + "…"

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


def _nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all that it holds, whitespace and comments among them."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        for name in node.__dataclass_fields__:
            value = getattr(node, name)
            parts = value if isinstance(value, (list, tuple)) else (value,)
            pending.extend(part for part in parts if isinstance(part, cst.CSTNode))


def _comments(nodes: Iterable[cst.CSTNode]) -> Counter[str]:
    """The comments that nodes hold, and how often."""
    return Counter(part.value for node in nodes for part in _nodes_in(node) if isinstance(part, cst.Comment))


def _with_surroundings(
    node: cst.CSTNode, replacement: cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]
) -> list[cst.CSTNode]:
    """What is put in the place of a statement, with the lines above it and the comment behind it, where it has none of its own."""
    nodes = [replacement] if isinstance(replacement, cst.CSTNode) else [*replacement]
    above = getattr(node, "leading_lines", ())
    if nodes and above and not getattr(nodes[0], "leading_lines", above):
        nodes[0] = nodes[0].with_changes(leading_lines=above)
    last = nodes[-1] if nodes else None
    if (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(last, cst.SimpleStatementLine)
        and last.trailing_whitespace.comment is None
    ):
        nodes[-1] = last.with_changes(trailing_whitespace=node.trailing_whitespace)
    return nodes


def _shared(text: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(text), len(other)))
