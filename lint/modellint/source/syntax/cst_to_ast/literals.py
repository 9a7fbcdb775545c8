"""Literals: strings, those that are joined, and those with fields."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import libcst as cst

from modellint.source.syntax.cst_to_ast.positions import Placing
from modellint.source.syntax.cst_to_ast.token_positions import Span, refusal

_CHARACTER_NAME = re.compile(r"\\N\{[^{}]*\}")
_COMMENT = re.compile(
    r"('''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|#[^\n]*",
    re.DOTALL,
)
_FSTRING_ESCAPE = re.compile(r'\\N\{[^{}]*\}|\\[^{}]|\\|\{\{|\}\}|"', re.DOTALL)


class _Text(NamedTuple):
    """Literal piece of an f-string, kept apart until its neighbours are known."""

    value: str
    span: Span
    kind: str | None = None


class Strings(Placing):
    """Strings of every kind."""

    def _literal(self, token: str, span: Span) -> Any:
        try:
            try:
                return ast.literal_eval(token)
            except SyntaxError as error:
                if "unknown Unicode character name" not in str(error):
                    raise
                # Names are added with every Unicode version; the character itself is irrelevant.
                return ast.literal_eval(_CHARACTER_NAME.sub("\ufffd", token))
        except (SyntaxError, ValueError) as error:
            message = error.msg if isinstance(error, SyntaxError) else str(error)
            raise refusal(message, self._source, span.start) from error

    def _string(self, node: cst.CSTNode, ctx: ast.expr_context) -> ast.expr:
        tokens: list[cst.CSTNode] = []
        rest = node
        while isinstance(rest, cst.ConcatenatedString):
            tokens.append(rest.left)
            rest = rest.right
        tokens.append(rest)
        if not all(isinstance(token, cst.SimpleString) for token in tokens):
            return self._joined(tokens, node)
        values: list[Any] = []
        for token in tokens:
            span = self._span(token)
            values.append(self._literal(self._slice_text(*span), span))
        value = b"".join(values) if isinstance(values[0], bytes) else "".join(values)
        kind = self._string_kind(tokens[0])
        return self._at(ast.Constant(value=value, kind=kind), node)

    def _prefix(self, token: cst.CSTNode) -> str:
        """Prefix of a string in the source, as the tree may have an ``f`` standing for a ``t``."""
        start = self._span(token).start
        return re.split(rb"['\"]", self._source[start : start + 3])[0].decode("utf-8").lower()

    def _string_kind(self, token: cst.CSTNode) -> str | None:
        start = self._span(token).start
        return "u" if self._source[start : start + 1] == b"u" else None

    def _joined(self, tokens: Iterable[cst.CSTNode], node: cst.CSTNode) -> ast.expr:
        pieces: list[_Text | ast.expr] = []
        template = False
        for token in tokens:
            if isinstance(token, cst.SimpleString):
                span = self._span(token)
                value = self._literal(self._slice_text(*span), span)
                pieces.append(_Text(value, span, self._string_kind(token)))
            else:
                prefix = self._prefix(token)
                template = template or "t" in prefix
                pieces += self._pieces(getattr(token, "parts", ()), prefix)
        kind: Any = ast.JoinedStr
        if template and sys.version_info >= (3, 14):
            kind = ast.TemplateStr
        result: ast.expr = kind(values=self._folded(pieces))
        return self._at(result, node)

    def _folded(self, pieces: Iterable[_Text | ast.expr]) -> list[ast.expr]:
        """Join adjacent literal pieces; ``ast`` has at most one constant between two fields."""
        result: list[ast.expr] = []
        run: list[_Text] = []
        for piece in [*pieces, None]:
            if isinstance(piece, _Text):
                run.append(piece)
                continue
            value = "".join(text.value for text in run)
            if value:
                constant = ast.Constant(value=value, kind=run[0].kind)
                result.append(self._place(constant, run[0].span.start, run[-1].span.end))
            run = []
            if piece is not None:
                result.append(piece)
        return result

    def _pieces(self, parts: Iterable[Any], prefix: str) -> list[_Text | ast.expr]:
        result: list[_Text | ast.expr] = []
        for part in parts:
            span = self._span(part)
            if not hasattr(part, "expression"):
                value = self._decoded(self._slice_text(*span), "r" in prefix, span)
                if value:
                    result.append(_Text(value, span))
                continue
            if part.equal is not None:
                end = self._span(part.whitespace_after_expression).end
                text = Span(span.start + 1, end)
                echo = _COMMENT.sub(lambda found: found.group(1) or "", self._slice_text(*text))
                result.append(_Text(echo, text))
            result.append(self._field(part, span, prefix))
        return result

    def _field(self, part: Any, span: Span, prefix: str) -> ast.expr:
        conversion = -1
        if part.conversion is not None:
            conversion = ord(part.conversion)
        elif part.equal is not None and part.format_spec is None:
            conversion = ord("r")
        format_spec: ast.expr | None = None
        if part.format_spec is not None:
            start = span.end - 2
            if part.format_spec:
                start = self._span(part.format_spec[0]).start - 1
            spec = ast.JoinedStr(values=self._folded(self._pieces(part.format_spec, prefix.replace("t", ""))))
            format_spec = self._place(spec, start, span.end - 1)
        fields: dict[str, Any] = {
            "value": self._expr(part.expression),
            "conversion": conversion,
            "format_spec": format_spec,
        }
        kind: Any = ast.FormattedValue
        if "t" in prefix and sys.version_info >= (3, 14):
            kind = ast.Interpolation
            fields["str"] = self._slice_text(span.start + 1, self._outer(part.expression).end)
        result: ast.expr = kind(**fields)
        return self._place(result, *span)

    def _decoded(self, text: str, raw: bool, span: Span) -> str:
        """Value of the literal text of an f-string, given as it stands in the source."""
        if raw or "\\" not in text:
            return text.replace("{{", "{").replace("}}", "}")

        def escape(found: re.Match[str]) -> str:
            token = found.group()
            if token in ("{{", "}}"):
                return token[0]
            # A backslash in front of a brace stands for itself, and the quotes around the
            # text are chosen here, so a quote in it needs escaping.
            return {"\\": "\\\\", '"': '\\"'}.get(token, token)

        value = self._literal(f'"""{_FSTRING_ESCAPE.sub(escape, text)}"""', span)
        assert isinstance(value, str)
        return value
