"""Text to a syntax tree: by the running Python's parser, or by libcst's where the syntax is newer than that."""

from __future__ import annotations

import ast
import sys
import warnings

LARGE_STACK = 200_000
"""The recursion limit that is set where the stack is large."""


class Unparsable(Exception):
    """The text is not Python. ``row`` and ``column`` count from 1, or are None when the place is not known."""

    def __init__(self, message: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column


def parse(text: str) -> ast.Module:
    """The syntax tree of ``text``. Raises ``Unparsable``, or ``RecursionError`` for a very deep expression."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes in the user's strings are theirs to hear about from Python.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return _parse_newer(text, error)
    except (MemoryError, RecursionError):
        # CPython's parser raises the one or the other when an expression nests deeper than it allows.
        if sys.getrecursionlimit() < LARGE_STACK:
            raise RecursionError("expression nested too deeply") from None
        # 3.12's has a limit that no stack lifts; libcst's has none.
        return parse_with_libcst(text)


def parse_with_libcst(text: str) -> ast.Module:
    """The same tree by way of libcst. Raises ``Unparsable``."""
    import libcst

    from modellint.source.syntax.cst_to_ast import lower

    try:
        return lower(text)
    except libcst.ParserSyntaxError as error:
        raise Unparsable(error.message, error.raw_line, error.raw_column + 1) from None


def _parse_newer(text: str, error: SyntaxError | ValueError) -> ast.Module:
    try:
        return parse_with_libcst(text)
    except Unparsable:
        if isinstance(error, SyntaxError):
            raise Unparsable(error.msg, error.lineno, error.offset) from None
        raise Unparsable(str(error)) from None
