"""Edits that fixes are built of: text put in the place of a node, before it or around it, and what torch is called there.

A rewriter is made for one file; everything is offsets into its text.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.syntax.ast_walk import of_kind, once, walk
from modellint.source.syntax.comments import comments_and_strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modellint.results.diagnostic import Edit, Fix, Span
    from modellint.source.project.symbols import IndexedFile

_INDENT = re.compile(r"[ \t\f]*")


class Spelling(NamedTuple):
    """How a torch name is written in a file, and the edit that imports it where it is not imported yet."""

    text: str
    imports: tuple[Edit, ...]


def _comments(text: str) -> Iterator[str]:
    for start, end in comments_and_strings(text)[0] if "#" in text else ():
        yield text[start:end].rstrip()


_OPENING = re.compile(r"(?:[-+*/%@=,(\[{:<>&|^~]\s*|\breturn\s+)(\(\s*)\Z")
"""A bracket that is no call's or subscript's, as neither a name nor another bracket ends before it."""
_CLOSING = re.compile(r"\s*\)")
_NEAR = 80


class Rewriter:
    """Places and names in one file."""

    __slots__ = ("file", "source", "text")

    def __init__(self, file: IndexedFile) -> None:
        self.file = file
        self.source = file.source
        self.text = file.source.text

    # Places

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Offset of a node's first character; of its first decorator where it has one."""
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            first = self.source.byte_offset(decorators[0].lineno, decorators[0].col_offset)
            return self.text.rindex("@", 0, first)
        return self.source.byte_offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Offset behind a node's last character."""
        return self.source.byte_offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where a statement is shown: all of it, or the head of one that holds others."""
        start = self.source.byte_offset(node.lineno, node.col_offset)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            end = re.compile(r"\b" + re.escape(node.name) + r"\b").search(self.text, start)
            return self.source.span(start, end.end() if end else start + 3)
        if hasattr(node, "body") and isinstance(node, ast.stmt):
            row, _ = self.source.place(start)
            line_end = self.source.line_starts[row - 1] + len(self.source.line(row))
            return self.source.span(start, line_end)
        return self.source.span(start, self.end(node))

    def call_span(self, node: ast.Call, whole: bool = False) -> Span:
        """Where a call is shown: from the name that is called, the object before it left out but with ``whole``."""
        start = self.start(node)
        if not whole and isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
            start = self.end(node.func) - len(node.func.attr)
        return self.source.span(start, self.end(node))

    def indentation(self, node: ast.stmt) -> str | None:
        """The white space before a statement that begins its line; None for one that follows another."""
        start = self.start(node)
        row, _ = self.source.place(start)
        before = self.text[self.source.line_starts[row - 1] : start]
        return before if _INDENT.fullmatch(before) else None

    def alone_on_its_lines(self, node: ast.stmt) -> tuple[int, int] | None:
        """Offsets of the whole lines of a statement, its trailing comment and line end included; None if shared."""
        if self.indentation(node) is None:
            return None
        row, _ = self.source.place(self.start(node))
        end_row, _ = self.source.place(self.end(node))
        rest = self.text[self.end(node) : self.source.line_starts[end_row - 1] + len(self.source.line(end_row))]
        if rest.strip() and not rest.strip().startswith("#"):
            return None
        starts = self.source.line_starts
        behind = starts[end_row] if end_row < len(starts) else len(self.text)
        return starts[row - 1], behind

    # Edits

    def rename_method(self, node: ast.Call, name: str) -> Edit:
        """Call another method of the same object."""
        if not isinstance(node.func, ast.Attribute):
            raise TypeError("not a method call")
        end = self.end(node.func)
        return self.source.replace(end - len(node.func.attr), end, name)

    def call_with(self, statement: ast.stmt, value: ast.expr, head: str, tail: str) -> tuple[Edit, ...]:
        """``target = value`` to ``head value tail``, parentheses around the value kept."""
        start, end = self.start(value), self.end(value)
        last = self.end(statement)
        if isinstance(value, ast.Tuple) and not self.text[start:end].startswith("("):
            head, tail = head + "(", ")" + tail
        opening = self.text.rfind("=", self.start(statement), start) + 1
        # What stands between the sign and the value: blanks, or parentheses that go on over lines.
        between = self.text[opening:start].lstrip(" \t")
        return (self.source.replace(self.start(statement), start - len(between), head), self.insert(last, tail))

    def dot(self, node: ast.Attribute) -> int:
        """Offset of the dot before an attribute's name; brackets around the object end before it."""
        return self.text.rindex(".", self.end(node.value), self.end(node) - len(node.attr))

    def cut_attribute(self, node: ast.Attribute) -> Edit:
        """``object.name`` to ``object``."""
        return self.remove(self.dot(node), self.end(node))

    def add_argument(self, node: ast.Call, content: str) -> Edit:
        """Give a call one more argument, behind all others."""
        last = max((self.end(part) for part in (*node.args, *(word.value for word in node.keywords))), default=None)
        close = self.end(node) - 1
        if last is None:
            return self.insert(close, content)
        at = place = last
        while at < close:
            if self.text[at] == "#":
                row, _ = self.source.place(at)
                at = self.source.line_starts[row - 1] + len(self.source.line(row))
                continue
            at += 1
            if self.text[at - 1] == ")":
                place = at
        return self.insert(place, ", " + content)

    def insert(self, offset: int, content: str) -> Edit:
        """Put text before an offset."""
        return self.source.insert(offset, content)

    def wrap(self, node: ast.expr, function: str) -> list[Edit]:
        """``node`` to ``function(node)``."""
        start, end = self.start(node), self.end(node)
        if isinstance(node, ast.Tuple) and not self.text[start:end].startswith("("):
            return [self.insert(start, function + "(("), self.insert(end, "))")]
        if isinstance(node, ast.GeneratorExp):
            return [self.insert(start, function)]
        return [self.insert(start, function + "("), self.insert(end, ")")]

    def replace(self, node: ast.expr, content: str) -> Edit:
        """Put text in the place of a node."""
        return self.source.replace(self.start(node), self.end(node), content)

    def replace_with_call(self, node: ast.expr, call: str) -> Edit:
        """Put a call in the place of an expression, and of brackets that it alone stands in, as a call needs none."""
        start, end = self.start(node), self.end(node)
        before, behind = _OPENING.search(self.text[max(0, start - _NEAR) : start]), _CLOSING.match(self.text, end)
        if before is not None and behind is not None:
            start, end = start - len(before[1]), behind.end()
        return self.source.replace(start, end, call)

    def before_statement(self, node: ast.stmt, content: str) -> Edit:
        """Put a statement before another, on a line of its own where that one begins a line."""
        indent = self.indentation(node)
        joint = "; " if indent is None else "\n" + indent
        return self.insert(self.start(node), content + joint)

    def indented(self, statement: ast.stmt, step: str) -> tuple[Edit, ...]:
        """Indent the further lines of a statement, but for those that begin in a string."""
        first, last = self.start(statement), self.end(statement)
        strings = comments_and_strings(self.text[first:last])[1]
        rows = range(self.source.place(first)[0] + 1, self.source.place(last)[0] + 1)
        starts = (self.source.line_starts[row - 1] for row in rows if self.source.line(row).strip())
        return tuple(
            self.insert(at, step) for at in starts if not any(begin < at - first < end for begin, end in strings)
        )

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def remove(self, start: int, end: int) -> Edit:
        """Take out the text between two offsets."""
        return self.source.replace(start, end, "")

    def first_in_body(self, function: ast.FunctionDef, content: str) -> Edit | None:
        """Put a statement at the top of a function, behind its docstring, and above comments on the first statement."""
        first = function.body[0]
        if not _is_docstring(first):
            return self._above_comments(first, content)
        if len(function.body) > 1:
            return self._above_comments(function.body[1], content)
        indent = self.indentation(first)
        return self.insert(self.end(first), "; " + content if indent is None else "\n" + indent + content)

    def _above_comments(self, node: ast.stmt, content: str) -> Edit:
        """Put a statement before another, and before the comments that stand right above that."""
        indent = self.indentation(node)
        row, _ = self.source.place(self.start(node))
        top = row
        while indent is not None and top > 1 and self.source.line(top - 1).startswith(f"{indent}#"):
            top -= 1
        if indent is None or top == row:
            return self.before_statement(node, content)
        return self.insert(self.source.line_starts[top - 1] + len(indent), f"{content}\n{indent}")

    def comma_behind(self, element: ast.expr, container: ast.Tuple) -> Edit | None:
        """Take out the comma behind the one element of a tuple."""
        at, end = self.end(element), self.end(container)
        while at < end:
            if self.text[at] == "#":
                row, _ = self.source.place(at)
                at = self.source.line_starts[row - 1] + len(self.source.line(row))
            elif self.text[at] == ",":
                return self.remove(at, at + 1)
            else:
                at += 1
        return None

    def without_tuple(self, element: ast.expr, container: ast.Tuple) -> tuple[Edit, ...]:
        """Leave the one element of a tuple: with neither comma nor, where that goes on over no lines, brackets."""
        start, first, last, end = self.start(container), self.start(element), self.end(element), self.end(container)
        behind = re.fullmatch(r"[ \t]*,[ \t]*\)", self.text[last:end])
        if self.text[start:first] == "(" and behind and "\n" not in self.text[first:last]:
            return self.remove(start, first), self.remove(last, end)
        comma = self.comma_behind(element, container)
        return () if comma is None else (comma,)

    # Comments

    def keeping_comments(self, fix: Fix | None) -> Fix | None:
        """The fix, if all comments that stand in what it replaces stand in what it writes; else None."""
        before: Counter[str] = Counter()
        after: Counter[str] = Counter()
        for edit in fix.edits if fix is not None else ():
            start = self.source.offset(edit.span.row, edit.span.column)
            before.update(_comments(self.text[start : self.source.offset(edit.span.end_row, edit.span.end_column)]))
            after.update(_comments(edit.content))
        return None if before - after else fix

    # Names

    def spelling(self, name: str, function: ast.AST | None = None) -> Spelling | None:
        """How to write ``torch.nn.NAME`` (``name`` without ``torch.nn.``) in a function of the file; None if it cannot be."""
        taken = once(function, "_bound_names", _bound_in) if function is not None else frozenset()
        best: str | None = None
        for alias, dotted in once(self.file.tree, "_torch_imports", _torch_imports):
            if alias in taken or len(self.file.names.get(alias, ())) > 1:
                continue
            if dotted == f"torch.nn.{name}":
                return Spelling(alias, ())
            if dotted == "torch.nn":
                best = f"{alias}.{name}"
            elif dotted == "torch" and best is None:
                best = f"{alias}.nn.{name}"
        if best is not None:
            return Spelling(best, ())
        if any(star.module == "torch.nn" and not star.level for star in self.file.stars) and name not in taken:
            return Spelling(name, ())
        for root, statement, text in (
            ("nn", "from torch import nn", f"nn.{name}"),
            ("torch", "import torch", f"torch.nn.{name}"),
        ):
            if root not in self.file.names and root not in taken and not self._mentions(root):
                return Spelling(text, (self._import_edit(statement, function),))
        return None

    def _mentions(self, name: str) -> bool:
        """Whether the name is used without being imported by name, so that importing it could change its meaning."""
        return name in once(self.file.tree, "_names", lambda tree: frozenset(one.id for one in of_kind(tree, ast.Name)))

    def _import_edit(self, statement: str, function: ast.AST | None) -> Edit:
        body = self.file.tree.body
        if self.source.cells:
            body = self._importing_cell(body, getattr(function, "lineno", len(self.source.line_starts))) or body
        last: ast.stmt | None = None
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and self.alone_on_its_lines(node) is not None:
                last = node
            elif last is not None or not _is_docstring(node):
                break
        if last is None and body and _is_docstring(body[0]):
            last = body[0]
        lines = self.alone_on_its_lines(last) if last is not None else None
        if lines is not None:
            if self.text[: lines[1]].endswith(("\n", "\r")):
                return self.insert(lines[1], statement + "\n")
            return self.insert(lines[1], "\n" + statement)
        return self.before_statement(body[0], statement)

    def _importing_cell(self, body: list[ast.stmt], row: int) -> list[ast.stmt]:
        """The statements of a notebook's first cell above a row that imports anything, else of the cell of the row; from the import on."""
        cells = self.source.cells
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and node.lineno < row:
                return [
                    other
                    for other in body
                    if other.lineno >= node.lineno
                    and bisect_right(cells, other.lineno) == bisect_right(cells, node.lineno)
                ]
        return [node for node in body if bisect_right(cells, node.lineno) == bisect_right(cells, row)]


def _torch_imports(tree: ast.Module) -> list[tuple[str, str]]:
    """Names that the top of a file imports without condition, with what they mean if it is torch's."""
    found: list[tuple[str, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                if alias.asname is not None:
                    found.append((alias.asname, alias.name))
                elif root == "torch":
                    found.append((root, root))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.extend((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
    return [(alias, dotted) for alias, dotted in found if dotted == "torch" or dotted.startswith("torch.")]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _bound_in(function: ast.AST) -> frozenset[str]:
    names: set[str] = set()
    for node in walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return frozenset(names)
