"""Where the nodes of a libcst tree stand in its text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import libcst as cst

# How the tokens of a node follow each other in the source. The words mean:
#
#   'def'       a token; 'if,elif' one of two
#   name        a child, or a sequence of children; nothing if absent
#   .value      the token that attribute of the node spells out
#   guard?'if'  a token present only if the child is; name!'_' one present only if it is not
#   < and >     bounds of the span ``ast`` has for the node, the whole layout by default
_LAYOUTS: dict[str, str] = {
    "AnnAssign": "< target annotation equal value > semicolon",
    "Annotation": "'->,:' annotation",
    "Arg": "< .star keyword equal value > comma",
    "AsName": "'as' name",
    "Assert": "< 'assert' test comma msg > semicolon",
    "Assign": "< targets value > semicolon",
    "AssignTarget": "target '='",
    "Asynchronous": "'async'",
    "Attribute": "lpar < value dot attr > rpar",
    "AugAssign": "< target operator value > semicolon",
    "Await": "lpar < 'await' expression > rpar",
    "BinaryOperation": "lpar < left operator right > rpar",
    "BooleanOperation": "lpar < left operator right > rpar",
    "Break": "< 'break' > semicolon",
    "Call": "lpar < func '(' whitespace_before_args args ')' > rpar",
    "ClassDef": ("decorators < 'class' name type_parameters lpar bases keywords rpar ':' body >"),
    "CompFor": "asynchronous 'for' target 'in' iter ifs inner_for_in",
    "CompIf": "'if' test",
    "Comparison": "lpar < left comparisons > rpar",
    "ComparisonTarget": "operator comparator",
    "ConcatenatedString": "lpar < left right > rpar",
    "Continue": "< 'continue' > semicolon",
    "Decorator": "'@' decorator",
    "Del": "< 'del' target > semicolon",
    "Dict": "lpar < lbrace elements rbrace > rpar",
    "DictComp": "lpar < lbrace key ':' value for_in rbrace > rpar",
    "DictElement": "< key ':' value > comma",
    "Element": "< value > comma",
    "Ellipsis": "lpar < '...' > rpar",
    "Else": "'else' ':' body",
    "ExceptHandler": "'except' type name ':' body",
    "ExceptStarHandler": "'except' '*' type name ':' body",
    "Expr": "< value > semicolon",
    "Finally": "'finally' ':' body",
    "Float": "lpar < .value > rpar",
    "For": "asynchronous 'for' target 'in' iter ':' body orelse",
    "FormattedString": "lpar < .start parts .end > rpar",
    "FormattedStringExpression": (
        "'{' expression equal whitespace_after_expression conversion?'!' .conversion format_spec?':' format_spec '}'"
    ),
    "From": "'from' item",
    "FunctionDef": ("decorators < asynchronous 'def' name type_parameters '(' params ')' returns ':' body >"),
    "GeneratorExp": "lpar < elt for_in > rpar",
    "Global": "< 'global' names > semicolon",
    "If": "'if,elif' test ':' body orelse",
    "IfExp": "lpar < body 'if' test 'else' orelse > rpar",
    "Imaginary": "lpar < .value > rpar",
    "Import": "< 'import' names > semicolon",
    "ImportAlias": "< name asname > comma",
    "ImportFrom": "< 'from' relative module 'import' lpar names rpar > semicolon",
    "ImportStar": "'*'",
    "IndentedBlock": "body",
    "Index": ".star value",
    "Integer": "lpar < .value > rpar",
    "IsNot": "'is' 'not'",
    "Lambda": "lpar < 'lambda' params colon body > rpar",
    "LazyImport": "< 'lazy' 'import' names > semicolon",
    "LazyImportFrom": "< 'lazy' 'from' relative module 'import' lpar names rpar > semicolon",
    "LeftCurlyBrace": "'{'",
    "LeftParen": "'('",
    "LeftSquareBracket": "'['",
    "List": "lpar < lbracket elements rbracket > rpar",
    "ListComp": "lpar < lbracket elt for_in rbracket > rpar",
    "Match": "'match' subject ':' cases",
    "MatchAs": "lpar < pattern pattern?'as' name name!'_' > rpar",
    "MatchCase": "'case' pattern guard?'if' guard ':' body",
    "MatchClass": "lpar < cls '(' patterns kwds ')' > rpar",
    "MatchKeywordElement": "key '=' pattern comma",
    "MatchList": "lpar < lbracket patterns rbracket > rpar",
    "MatchMapping": "lpar < lbrace elements rest?'**' rest trailing_comma rbrace > rpar",
    "MatchMappingElement": "key ':' pattern comma",
    "MatchOr": "lpar < patterns > rpar",
    "MatchOrElement": "pattern separator",
    "MatchSequenceElement": "value comma",
    "MatchSingleton": "value",
    "MatchStar": "< '*' name name!'_' > comma",
    "MatchTuple": "lpar < patterns > rpar",
    "MatchValue": "value",
    "Module": "body",
    "Name": "lpar < .value > rpar",
    "NameItem": "name comma",
    "NamedExpr": "lpar < target ':=' value > rpar",
    "Nonlocal": "< 'nonlocal' names > semicolon",
    "NotEqual": ".value",
    "NotIn": "'not' 'in'",
    "Param": "< .star name > annotation equal default comma",
    "ParamSlash": "'/' comma",
    "ParamSpec": "'**' name",
    "ParamStar": "'*' comma",
    "Parameters": "posonly_params posonly_ind params star_arg kwonly_params star_kwarg",
    "Pass": "< 'pass' > semicolon",
    "Raise": "< 'raise' exc cause > semicolon",
    "Return": "< 'return' value > semicolon",
    "RightCurlyBrace": "'}'",
    "RightParen": "')'",
    "RightSquareBracket": "']'",
    "Set": "lpar < lbrace elements rbrace > rpar",
    "SetComp": "lpar < lbrace elt for_in rbrace > rpar",
    "SimpleStatementLine": "body",
    "SimpleStatementSuite": "body",
    "SimpleString": "lpar < .value > rpar",
    "Slice": "lower first_colon upper second_colon step",
    "StarredDictComp": "lpar < lbrace '**' value for_in rbrace > rpar",
    "StarredDictElement": "< '**' value > comma",
    "StarredElement": "lpar < '*' value > rpar comma",
    "Subscript": "lpar < value lbracket slice rbracket > rpar",
    "SubscriptElement": "< slice > comma",
    "Try": "'try' ':' body handlers orelse finalbody",
    "TryStar": "'try' ':' body handlers orelse finalbody",
    "Tuple": "lpar < elements > rpar",
    "TypeAlias": "< 'type' name type_parameters '=' value > semicolon",
    "TypeParam": "param equal .star whitespace_after_star default comma",
    "TypeParameters": "lbracket params rbracket",
    "TypeVar": "name colon bound",
    "TypeVarTuple": "'*' name",
    "UnaryOperation": "lpar < operator expression > rpar",
    "While": "'while' test ':' body orelse",
    "With": "asynchronous 'with' lpar items rpar ':' body",
    "WithItem": "item asname comma",
    "Yield": "lpar < 'yield' value > rpar",
}
_LAYOUTS["TemplatedString"] = _LAYOUTS["FormattedString"]
_LAYOUTS["TemplatedStringExpression"] = _LAYOUTS["FormattedStringExpression"]

_SYMBOLS: dict[str, str] = {
    "Add": "+",
    "And": "and",
    "AssignEqual": "=",
    "BitAnd": "&",
    "BitInvert": "~",
    "BitOr": "|",
    "BitXor": "^",
    "Colon": ":",
    "Comma": ",",
    "Divide": "/",
    "Dot": ".",
    "Equal": "==",
    "FloorDivide": "//",
    "GreaterThan": ">",
    "GreaterThanEqual": ">=",
    "In": "in",
    "Is": "is",
    "LeftShift": "<<",
    "LessThan": "<",
    "LessThanEqual": "<=",
    "MatrixMultiply": "@",
    "Minus": "-",
    "Modulo": "%",
    "Multiply": "*",
    "Not": "not",
    "Or": "or",
    "Plus": "+",
    "Power": "**",
    "RightShift": ">>",
    "Semicolon": ";",
    "Subtract": "-",
}
_SYMBOLS.update(
    {
        f"{name}Assign": f"{_SYMBOLS[name]}="
        for name in (
            "Add",
            "Subtract",
            "Multiply",
            "MatrixMultiply",
            "Divide",
            "Modulo",
            "Power",
            "LeftShift",
            "RightShift",
            "BitOr",
            "BitXor",
            "BitAnd",
            "FloorDivide",
        )
    }
)
_BLANKS = re.compile(rb"(?:[ \t\f\n]|\\\n|#[^\n]*)*")


class Span(NamedTuple):
    """Half-open byte range in the normalised source."""

    start: int
    end: int


def refusal(message: str, source: bytes, offset: int = 0) -> cst.ParserSyntaxError:
    """Error of the kind libcst raises itself, so that callers have one to expect."""
    before = source[:offset].decode("utf-8")
    return cst.ParserSyntaxError(
        message,
        lines=source.decode("utf-8", "replace").split("\n"),
        raw_line=before.count("\n") + 1,
        raw_column=len(before) - before.rfind("\n") - 1,
    )


def kind_of(node: cst.CSTNode) -> str:
    """The name of a node's class."""
    return type(node).__name__


def identifier(value: str) -> str:
    """A name as Python compares it."""
    return value if value.isascii() else unicodedata.normalize("NFKC", value)


def dotted(node: cst.BaseExpression) -> str:
    """A name with dots."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(identifier(node.attr.value))
        node = node.value
    assert isinstance(node, cst.Name)
    parts.append(identifier(node.value))
    return ".".join(reversed(parts))


def _compiled(layout: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    words = layout.split()
    if "<" not in words:
        words = ["<", *words, ">"]
    steps: list[tuple[str, str, tuple[str, ...]]] = []
    for word in words:
        field, quote, tokens = word.partition("'")
        if word in ("<", ">"):
            steps.append((word, "", ()))
        elif quote:
            steps.append((field[-1:] or "'", field[:-1], tuple(tokens.rstrip("'").split(","))))
        elif word.startswith("."):
            steps.append((".", word[1:], ()))
        else:
            steps.append(("", word, ()))
    return tuple(steps)


_STEPS = {kind: _compiled(layout) for kind, layout in _LAYOUTS.items()}
_STEPS.update({kind: (("<", "", ()), ("'", "", (token,)), (">", "", ())) for kind, token in _SYMBOLS.items()})


def measured(module: cst.Module, source: bytes) -> dict[cst.CSTNode, Span]:
    """Find the span of every node by looking for its tokens in the source.

    libcst has no positions of its own: its metadata measures regenerated code, in which a form
    feed in front of a statement is missing, with a recursion as deep as the tree. Nothing but
    blanks and comments stands between two tokens, so looking for them in order is enough.
    """
    spans: dict[cst.CSTNode, Span] = {}
    at = 0

    def skip(start: int) -> int:
        blanks = _BLANKS.match(source, start)
        return start if blanks is None else blanks.end()

    # Pending work, last first: children to enter, spellings of the next token, span bounds.
    stack: list[tuple[str, Any]] = [("", module)]
    while stack:
        step, item = stack.pop()
        if step == "'":
            at = skip(at)
            for token in item:
                if source.startswith(token.encode("utf-8"), at):
                    at += len(token.encode("utf-8"))
                    break
            else:
                raise refusal(f"expected {item[0]!r}", source, at)
        elif step == "<":
            at = skip(at)
            spans[item] = Span(at, at)
        elif step == ">":
            spans[item] = Span(spans[item].start, at)
        elif isinstance(item, cst.BaseParenthesizableWhitespace):
            spans[item] = Span(at, skip(at))
        elif kind_of(item) in ("FormattedStringText", "TemplatedStringText"):
            # Blanks count in here, so the text is not looked for.
            end = at + len(item.value.encode("utf-8"))
            spans[item] = Span(at, end)
            at = end
        else:
            stack.extend(reversed(list(_work(item))))
    return spans


def _work(node: cst.CSTNode) -> Iterator[tuple[str, Any]]:
    for step, field, tokens in _STEPS[kind_of(node)]:
        value = getattr(node, field) if field else None
        if step in ("<", ">"):
            yield step, node
        elif step == "'" or (step == "?" and value is not None) or (step == "!" and value is None):
            yield "'", tokens
        elif step == "." and isinstance(value, str):
            yield "'", (value,)
        elif step == "" and isinstance(value, cst.CSTNode):
            yield "", value
        elif step == "" and isinstance(value, Sequence):
            for child in value:
                yield "", child
