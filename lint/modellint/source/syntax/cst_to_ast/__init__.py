"""Build a stdlib ``ast`` tree from a libcst tree.

The analysis works on ``ast``, but ``ast.parse`` only knows the grammar of the running Python.
libcst ships its own parser for newer syntax, so a file the running Python rejects can still be
analysed after its libcst tree has been lowered to the equivalent ``ast`` nodes.
"""

from __future__ import annotations

import ast
import contextlib
import re
import warnings

import libcst as cst

from modellint.source.syntax.cst_to_ast.statements import Lowering
from modellint.source.syntax.cst_to_ast.token_positions import refusal

__all__ = ["lower"]

_TEMPLATE_PREFIX = re.compile(r"(?<![\w'\"])([rR]?)[tT]([rR]?)(?=['\"])")


def lower(text: str) -> ast.Module:
    """Parse ``text`` with libcst and return the tree ``ast.parse`` would have returned.

    Syntax without a node in the running Python becomes its nearest relative. Raises
    ``libcst.ParserSyntaxError`` if libcst cannot parse the text or, as it does not look into
    literals, if one of them has no value (a malformed escape, for example).
    """
    # The line structure is the same for every newline convention, as it is for ``ast``, while
    # libcst loses a lone CR at the end of a file.
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are for Python to report
        try:
            module, parsed = _parse(source)
        except (cst.CSTLogicError, cst.CSTValidationError, UnicodeError) as error:
            raise refusal(str(error), source.encode("utf-8", "replace")) from error
        return Lowering(module, parsed, source).module()


def _parse(source: str) -> tuple[cst.Module, str]:
    """Return the tree along with the text it spells, which may be a stand-in of equal shape."""
    try:
        return cst.parse_module(source), source
    except (cst.CSTLogicError, cst.ParserSyntaxError):
        # libcst knows neither adjacent t-strings nor the prefix ``tr``; f-strings have the same
        # shape and length.
        rewritten = _TEMPLATE_PREFIX.sub(r"\1f\2", source)
        if rewritten != source:
            with contextlib.suppress(cst.CSTLogicError, cst.ParserSyntaxError):
                return cst.parse_module(rewritten), rewritten
        raise
