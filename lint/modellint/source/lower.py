"""Build a stdlib ``ast`` tree from a libcst tree.

The analysis works on ``ast``, but ``ast.parse`` only knows the grammar of the running Python.
libcst ships its own parser for newer syntax, so a file the running Python rejects can still be
analysed after its libcst tree has been lowered to the equivalent ``ast`` nodes.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import unicodedata
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import libcst as cst

__all__ = ["lower"]

_Located = TypeVar(
    "_Located",
    bound=ast.expr | ast.stmt | ast.pattern | ast.arg | ast.keyword | ast.alias | ast.excepthandler,
)

_LOAD = ast.Load()
_STORE = ast.Store()
_DEL = ast.Del()

_OPERATORS: dict[str, ast.operator] = {
    "Add": ast.Add(),
    "Subtract": ast.Sub(),
    "Multiply": ast.Mult(),
    "MatrixMultiply": ast.MatMult(),
    "Divide": ast.Div(),
    "Modulo": ast.Mod(),
    "Power": ast.Pow(),
    "LeftShift": ast.LShift(),
    "RightShift": ast.RShift(),
    "BitOr": ast.BitOr(),
    "BitXor": ast.BitXor(),
    "BitAnd": ast.BitAnd(),
    "FloorDivide": ast.FloorDiv(),
}
_COMPARISONS: dict[str, ast.cmpop] = {
    "Equal": ast.Eq(),
    "NotEqual": ast.NotEq(),
    "LessThan": ast.Lt(),
    "LessThanEqual": ast.LtE(),
    "GreaterThan": ast.Gt(),
    "GreaterThanEqual": ast.GtE(),
    "Is": ast.Is(),
    "IsNot": ast.IsNot(),
    "In": ast.In(),
    "NotIn": ast.NotIn(),
}
_UNARY: dict[str, ast.unaryop] = {
    "Plus": ast.UAdd(),
    "Minus": ast.USub(),
    "BitInvert": ast.Invert(),
    "Not": ast.Not(),
}
_SINGLETONS: dict[str, bool | None] = {"True": True, "False": False, "None": None}

# Expressions whose first token belongs to a child of the same precedence class, so that a chain
# such as ``a + a + a`` or ``a.b().c()`` nests to the left once per link.
_SPINE: dict[str, str] = {
    "Attribute": "value",
    "BinaryOperation": "left",
    "BooleanOperation": "left",
    "Call": "func",
    "Comparison": "left",
    "Subscript": "value",
}

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
_SYMBOLS.update({f"{name}Assign": f"{_SYMBOLS[name]}=" for name in _OPERATORS})

_BLANKS = re.compile(rb"(?:[ \t\f\n]|\\\n|#[^\n]*)*")
_CHARACTER_NAME = re.compile(r"\\N\{[^{}]*\}")
_COMMENT = re.compile(
    r"('''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|#[^\n]*",
    re.DOTALL,
)
_FSTRING_ESCAPE = re.compile(r'\\N\{[^{}]*\}|\\[^{}]|\\|\{\{|\}\}|"', re.DOTALL)
_TEMPLATE_PREFIX = re.compile(r"(?<![\w'\"])([rR]?)[tT]([rR]?)(?=['\"])")


class _Span(NamedTuple):
    """Half-open byte range in the normalised source."""

    start: int
    end: int


class _Text(NamedTuple):
    """Literal piece of an f-string, kept apart until its neighbours are known."""

    value: str
    span: _Span
    kind: str | None = None


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
            raise _refusal(str(error), source.encode("utf-8", "replace")) from error
        return _Lowering(module, parsed, source).module()


def _refusal(message: str, source: bytes, offset: int = 0) -> cst.ParserSyntaxError:
    """Error of the kind libcst raises itself, so that callers have one to expect."""
    before = source[:offset].decode("utf-8")
    return cst.ParserSyntaxError(
        message,
        lines=source.decode("utf-8", "replace").split("\n"),
        raw_line=before.count("\n") + 1,
        raw_column=len(before) - before.rfind("\n") - 1,
    )


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


def _kind_of(node: cst.CSTNode) -> str:
    return type(node).__name__


def _identifier(value: str) -> str:
    return value if value.isascii() else unicodedata.normalize("NFKC", value)


def _dotted(node: cst.BaseExpression) -> str:
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(_identifier(node.attr.value))
        node = node.value
    assert isinstance(node, cst.Name)
    parts.append(_identifier(node.value))
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


def _measured(module: cst.Module, source: bytes) -> dict[cst.CSTNode, _Span]:
    """Find the span of every node by looking for its tokens in the source.

    libcst has no positions of its own: its metadata measures regenerated code, in which a form
    feed in front of a statement is missing, with a recursion as deep as the tree. Nothing but
    blanks and comments stands between two tokens, so looking for them in order is enough.
    """
    spans: dict[cst.CSTNode, _Span] = {}
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
                raise _refusal(f"expected {item[0]!r}", source, at)
        elif step == "<":
            at = skip(at)
            spans[item] = _Span(at, at)
        elif step == ">":
            spans[item] = _Span(spans[item].start, at)
        elif isinstance(item, cst.BaseParenthesizableWhitespace):
            spans[item] = _Span(at, skip(at))
        elif _kind_of(item) in ("FormattedStringText", "TemplatedStringText"):
            # Blanks count in here, so the text is not looked for.
            end = at + len(item.value.encode("utf-8"))
            spans[item] = _Span(at, end)
            at = end
        else:
            stack.extend(reversed(list(_work(item))))
    return spans


def _work(node: cst.CSTNode) -> Iterator[tuple[str, Any]]:
    for step, field, tokens in _STEPS[_kind_of(node)]:
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


class _Lowering:
    """Conversion of one module; holds the positions of its nodes."""

    def __init__(self, module: cst.Module, parsed: str, source: str) -> None:
        self._module = module
        self._spans = _measured(module, parsed.encode("utf-8"))
        self._source = source.encode("utf-8")
        self._lines = [0]
        self._lines += [found.end() for found in re.finditer(rb"\n", self._source)]
        self._links: dict[str, Callable[[Any, Any, ast.expr_context], ast.expr]] = {
            "Attribute": self._attribute,
            "BinaryOperation": self._binary,
            "BooleanOperation": self._boolean,
            "Call": self._call,
            "Comparison": self._comparison,
            "Subscript": self._subscript,
        }
        self._expressions: dict[str, Callable[[Any, ast.expr_context], ast.expr]] = {
            "Await": self._await,
            "ConcatenatedString": self._string,
            "Dict": self._dict,
            "DictComp": self._dict_comp,
            "Ellipsis": self._ellipsis,
            "Float": self._number,
            "FormattedString": self._string,
            "GeneratorExp": self._generator,
            "IfExp": self._if_exp,
            "Imaginary": self._number,
            "Integer": self._number,
            "Lambda": self._lambda,
            "List": self._list,
            "ListComp": self._list_comp,
            "Name": self._name,
            "NamedExpr": self._named_expr,
            "Set": self._set,
            "SetComp": self._set_comp,
            "SimpleString": self._string,
            "StarredDictComp": self._starred_dict_comp,
            "StarredElement": self._starred,
            "TemplatedString": self._string,
            "Tuple": self._tuple,
            "UnaryOperation": self._unary,
            "Yield": self._yield,
        }
        self._patterns: dict[str, Callable[[Any], ast.pattern]] = {
            "MatchAs": self._match_as,
            "MatchClass": self._match_class,
            "MatchList": self._match_sequence,
            "MatchMapping": self._match_mapping,
            "MatchOr": self._match_or,
            "MatchSingleton": self._match_singleton,
            "MatchTuple": self._match_sequence,
            "MatchValue": self._match_value,
        }
        self._simple: dict[str, Callable[[Any], ast.stmt]] = {
            "AnnAssign": self._ann_assign,
            "Assert": self._assert,
            "Assign": self._assign,
            "AugAssign": self._aug_assign,
            "Break": lambda node: self._at(ast.Break(), node),
            "Continue": lambda node: self._at(ast.Continue(), node),
            "Del": self._del,
            "Expr": lambda node: self._at(ast.Expr(value=self._expr(node.value)), node),
            "Global": self._global,
            "Import": self._import,
            "ImportFrom": self._import_from,
            "LazyImport": self._import,
            "LazyImportFrom": self._import_from,
            "Nonlocal": self._nonlocal,
            "Pass": lambda node: self._at(ast.Pass(), node),
            "Raise": self._raise,
            "Return": self._return,
            "TypeAlias": self._type_alias,
        }
        self._compound: dict[str, Callable[[Any], tuple[ast.stmt, int]]] = {
            "ClassDef": self._class_def,
            "For": self._for,
            "FunctionDef": self._function_def,
            "If": self._if,
            "Match": self._match,
            "Try": self._try,
            "TryStar": self._try,
            "While": self._while,
            "With": self._with,
        }

    def module(self) -> ast.Module:
        body, _ = self._statements(self._module.body)
        return ast.Module(body=body, type_ignores=[])

    # Positions

    def _span(self, node: cst.CSTNode) -> _Span:
        """Span without the parentheses around an expression."""
        return self._spans[node]

    def _outer(self, node: Any) -> _Span:
        """Span of an expression or pattern including its parentheses."""
        if node.lpar:
            return _Span(self._span(node.lpar[0]).start, self._span(node.rpar[-1]).end)
        return self._span(node)

    def _parenthesized(self, node: Any) -> _Span:
        """Span including the innermost parentheses, which ``ast`` counts for a few displays."""
        if node.lpar:
            return _Span(self._span(node.lpar[-1]).start, self._span(node.rpar[0]).end)
        return self._span(node)

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1]

    def _place(self, node: _Located, start: int, end: int) -> _Located:
        node.lineno, node.col_offset = self._position(start)
        node.end_lineno, node.end_col_offset = self._position(end)
        return node

    def _at(self, node: _Located, origin: cst.CSTNode) -> _Located:
        return self._place(node, *self._span(origin))

    def _slice_text(self, start: int, end: int) -> str:
        return self._source[start:end].decode("utf-8")

    # Statements

    def _statements(self, body: Iterable[cst.CSTNode]) -> tuple[list[ast.stmt], int]:
        """Convert statements and find where the last one ends.

        ``ast`` lets a block end with the semicolon of its last line, which the statements
        themselves do not include; hence the separate offset.
        """
        result: list[ast.stmt] = []
        end = 0
        for statement in body:
            if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
                for small in statement.body:
                    result.append(self._simple[_kind_of(small)](small))
                    end = self._small_end(small)
            else:
                converted, end = self._compound[_kind_of(statement)](statement)
                result.append(converted)
        return result, end

    def _small_end(self, small: cst.BaseSmallStatement) -> int:
        if isinstance(small.semicolon, cst.Semicolon):
            return self._span(small.semicolon).end
        return self._span(small).end

    def _block(self, suite: cst.BaseSuite) -> tuple[list[ast.stmt], int]:
        if isinstance(suite, cst.IndentedBlock):
            return self._statements(suite.body)
        return self._statements([suite])

    def _compound_at(self, node: _Located, origin: cst.CSTNode, end: int) -> tuple[_Located, int]:
        return self._place(node, self._span(origin).start, end), end

    def _function_def(self, node: cst.FunctionDef) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        kind: Any = ast.FunctionDef if node.asynchronous is None else ast.AsyncFunctionDef
        result: ast.stmt = kind(
            name=_identifier(node.name.value),
            args=self._arguments(node.params),
            body=body,
            decorator_list=[self._expr(item.decorator) for item in node.decorators],
            returns=None if node.returns is None else self._expr(node.returns.annotation),
            **self._type_params(node.type_parameters),
        )
        return self._compound_at(result, node, end)

    def _class_def(self, node: cst.ClassDef) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        bases, keywords = self._call_arguments([*node.bases, *node.keywords])
        kind: Any = ast.ClassDef
        result: ast.stmt = kind(
            name=_identifier(node.name.value),
            bases=bases,
            keywords=keywords,
            body=body,
            decorator_list=[self._expr(item.decorator) for item in node.decorators],
            **self._type_params(node.type_parameters),
        )
        return self._compound_at(result, node, end)

    def _type_params(self, node: cst.TypeParameters | None) -> dict[str, list[ast.AST]]:
        """Keyword arguments for a definition; empty where ``ast`` has no type parameters."""
        if sys.version_info < (3, 12):
            return {}
        return {"type_params": [self._type_param(item) for item in node.params] if node else []}

    def _type_param(self, node: cst.TypeParam) -> ast.AST:
        start, end = self._span(node.param)
        fields: dict[str, Any] = {"name": _identifier(node.param.name.value)}
        if isinstance(node.param, cst.TypeVar):
            bound = node.param.bound
            fields["bound"] = None if bound is None else self._expr(bound)
        if sys.version_info >= (3, 13):
            default = None if node.default is None else self._expr(node.default)
            if node.default is not None and default is not None:
                end = self._outer(node.default).end
                if node.star:
                    star = self._span(node.whitespace_after_star).start - len(node.star)
                    default = self._place(ast.Starred(value=default, ctx=_LOAD), star, end)
            fields["default_value"] = default
        kind: Any = getattr(ast, _kind_of(node.param))
        result: ast.AST = self._place(kind(**fields), start, end)
        return result

    def _if(self, node: cst.If) -> tuple[ast.stmt, int]:
        # A chain of ``elif`` nests once per link, so it is collected before it is converted.
        chain: list[tuple[cst.If, list[ast.stmt]]] = []
        orelse: list[ast.stmt] = []
        link: cst.If | cst.Else | None = node
        end = 0
        while isinstance(link, cst.If):
            body, end = self._block(link.body)
            chain.append((link, body))
            link = link.orelse
        if link is not None:
            orelse, end = self._block(link.body)
        for origin, body in reversed(chain):
            branch = ast.If(test=self._expr(origin.test), body=body, orelse=orelse)
            orelse = [self._place(branch, self._span(origin).start, end)]
        return orelse[0], end

    def _orelse(self, node: cst.Else | cst.Finally | None, end: int) -> tuple[list[ast.stmt], int]:
        return ([], end) if node is None else self._block(node.body)

    def _for(self, node: cst.For) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        orelse, end = self._orelse(node.orelse, end)
        kind = ast.For if node.asynchronous is None else ast.AsyncFor
        target = self._expr(node.target, _STORE)
        result = kind(target=target, iter=self._expr(node.iter), body=body, orelse=orelse)
        return self._compound_at(result, node, end)

    def _while(self, node: cst.While) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        orelse, end = self._orelse(node.orelse, end)
        result = ast.While(test=self._expr(node.test), body=body, orelse=orelse)
        return self._compound_at(result, node, end)

    def _with(self, node: cst.With) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        items = [
            ast.withitem(
                context_expr=self._expr(item.item),
                optional_vars=(None if item.asname is None else self._expr(item.asname.name, _STORE)),
            )
            for item in node.items
        ]
        kind = ast.With if node.asynchronous is None else ast.AsyncWith
        return self._compound_at(kind(items=items, body=body), node, end)

    def _try(self, node: cst.Try | cst.TryStar) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        handlers: list[ast.ExceptHandler] = []
        for item in node.handlers:
            handler_body, end = self._block(item.body)
            name = None if item.name is None else item.name.name
            handler = ast.ExceptHandler(
                type=None if item.type is None else self._expr(item.type),
                name=_identifier(name.value) if isinstance(name, cst.Name) else None,
                body=handler_body,
            )
            handlers.append(self._place(handler, self._span(item).start, end))
        orelse, end = self._orelse(node.orelse, end)
        finalbody, end = self._orelse(node.finalbody, end)
        kind: Any = ast.Try
        if not isinstance(node, cst.Try):
            kind = getattr(ast, "TryStar", ast.Try)
        result: ast.stmt = kind(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody)
        return self._compound_at(result, node, end)

    def _match(self, node: cst.Match) -> tuple[ast.stmt, int]:
        cases: list[ast.match_case] = []
        end = 0
        for item in node.cases:
            body, end = self._block(item.body)
            guard = None if item.guard is None else self._expr(item.guard)
            pattern = self._pattern(item.pattern)
            cases.append(ast.match_case(pattern=pattern, guard=guard, body=body))
        result = ast.Match(subject=self._expr(node.subject), cases=cases)
        return self._compound_at(result, node, end)

    def _assign(self, node: cst.Assign) -> ast.stmt:
        targets = [self._expr(item.target, _STORE) for item in node.targets]
        return self._at(ast.Assign(targets=targets, value=self._expr(node.value)), node)

    def _ann_assign(self, node: cst.AnnAssign) -> ast.stmt:
        target: Any = self._expr(node.target, _STORE)
        result = ast.AnnAssign(
            target=target,
            annotation=self._expr(node.annotation.annotation),
            value=None if node.value is None else self._expr(node.value),
            simple=int(isinstance(node.target, cst.Name) and not node.target.lpar),
        )
        return self._at(result, node)

    def _aug_assign(self, node: cst.AugAssign) -> ast.stmt:
        target: Any = self._expr(node.target, _STORE)
        result = ast.AugAssign(
            target=target,
            op=_OPERATORS[_kind_of(node.operator).removesuffix("Assign")],
            value=self._expr(node.value),
        )
        return self._at(result, node)

    def _assert(self, node: cst.Assert) -> ast.stmt:
        msg = None if node.msg is None else self._expr(node.msg)
        return self._at(ast.Assert(test=self._expr(node.test), msg=msg), node)

    def _del(self, node: cst.Del) -> ast.stmt:
        if isinstance(node.target, cst.Tuple) and not node.target.lpar:
            targets = [self._expr(item.value, _DEL) for item in node.target.elements]
        else:
            targets = [self._expr(node.target, _DEL)]
        return self._at(ast.Delete(targets=targets), node)

    def _return(self, node: cst.Return) -> ast.stmt:
        value = None if node.value is None else self._expr(node.value)
        return self._at(ast.Return(value=value), node)

    def _raise(self, node: cst.Raise) -> ast.stmt:
        exc = None if node.exc is None else self._expr(node.exc)
        cause = None if node.cause is None else self._expr(node.cause.item)
        return self._at(ast.Raise(exc=exc, cause=cause), node)

    def _global(self, node: cst.Global) -> ast.stmt:
        names = [_identifier(item.name.value) for item in node.names]
        return self._at(ast.Global(names=names), node)

    def _nonlocal(self, node: cst.Nonlocal) -> ast.stmt:
        names = [_identifier(item.name.value) for item in node.names]
        return self._at(ast.Nonlocal(names=names), node)

    def _import(self, node: cst.Import | cst.LazyImport) -> ast.stmt:
        names = [self._alias(item) for item in node.names]
        return self._at(self._laziness(ast.Import(names=names), node), node)

    def _import_from(self, node: cst.ImportFrom | cst.LazyImportFrom) -> ast.stmt:
        if isinstance(node.names, cst.ImportStar):
            names = [self._at(ast.alias(name="*", asname=None), node.names)]
        else:
            names = [self._alias(item) for item in node.names]
        module = None if node.module is None else _dotted(node.module)
        result = ast.ImportFrom(module=module, names=names, level=len(node.relative))
        return self._at(self._laziness(result, node), node)

    def _laziness(self, node: _Located, origin: cst.CSTNode) -> _Located:
        if "is_lazy" in node._fields:
            lazy: Any = node
            lazy.is_lazy = int(_kind_of(origin).startswith("Lazy"))
        return node

    def _alias(self, node: cst.ImportAlias) -> ast.alias:
        asname = None if node.asname is None else node.asname.name
        result = ast.alias(
            name=_dotted(node.name),
            asname=_identifier(asname.value) if isinstance(asname, cst.Name) else None,
        )
        return self._at(result, node)

    def _type_alias(self, node: cst.TypeAlias) -> ast.stmt:
        name = self._expr(node.name, _STORE)
        value = self._expr(node.value)
        result: ast.stmt
        if sys.version_info >= (3, 12):
            kind: Any = ast.TypeAlias
            result = kind(name=name, value=value, **self._type_params(node.type_parameters))
        else:
            result = ast.Assign(targets=[name], value=value)
        return self._at(result, node)

    # Parameters and arguments

    def _arguments(self, node: cst.Parameters) -> ast.arguments:
        positional = [*node.posonly_params, *node.params]
        vararg = node.star_arg
        return ast.arguments(
            posonlyargs=[self._arg(item) for item in node.posonly_params],
            args=[self._arg(item) for item in node.params],
            vararg=self._arg(vararg) if isinstance(vararg, cst.Param) else None,
            kwonlyargs=[self._arg(item) for item in node.kwonly_params],
            kw_defaults=[None if item.default is None else self._expr(item.default) for item in node.kwonly_params],
            kwarg=None if node.star_kwarg is None else self._arg(node.star_kwarg),
            defaults=[self._expr(item.default) for item in positional if item.default is not None],
        )

    def _arg(self, node: cst.Param) -> ast.arg:
        start, end = self._span(node.name)
        annotation = None
        if node.annotation is not None:
            annotation = self._expr(node.annotation.annotation)
            end = self._outer(node.annotation.annotation).end
        result = ast.arg(arg=_identifier(node.name.value), annotation=annotation)
        return self._place(result, start, end)

    def _call_arguments(self, args: Iterable[cst.Arg]) -> tuple[list[ast.expr], list[ast.keyword]]:
        positional: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        for item in args:
            value = self._expr(item.value)
            if item.star == "**" or item.keyword is not None:
                name = None if item.keyword is None else _identifier(item.keyword.value)
                keywords.append(self._at(ast.keyword(arg=name, value=value), item))
            elif item.star == "*":
                positional.append(self._at(ast.Starred(value=value, ctx=_LOAD), item))
            else:
                positional.append(value)
        return positional, keywords

    # Expressions

    def _expr(self, node: cst.CSTNode, ctx: ast.expr_context = _LOAD) -> ast.expr:
        links: list[tuple[cst.CSTNode, ast.expr_context]] = []
        while (field := _SPINE.get(_kind_of(node))) is not None:
            links.append((node, ctx))
            node, ctx = getattr(node, field), _LOAD
        result = self._expressions[_kind_of(node)](node, ctx)
        for link, link_ctx in reversed(links):
            result = self._links[_kind_of(link)](link, result, link_ctx)
        return result

    def _attribute(self, node: cst.Attribute, value: ast.expr, ctx: ast.expr_context) -> ast.expr:
        attr = _identifier(node.attr.value)
        return self._at(ast.Attribute(value=value, attr=attr, ctx=ctx), node)

    def _binary(self, node: cst.BinaryOperation, left: ast.expr, ctx: ast.expr_context) -> ast.expr:
        operator = _OPERATORS[_kind_of(node.operator)]
        return self._at(ast.BinOp(left=left, op=operator, right=self._expr(node.right)), node)

    def _boolean(self, node: cst.BooleanOperation, left: ast.expr, ctx: ast.expr_context) -> ast.expr:
        right = self._expr(node.right)
        first = node.left
        if (
            isinstance(left, ast.BoolOp)
            and isinstance(first, cst.BooleanOperation)
            and not first.lpar
            and type(first.operator) is type(node.operator)
        ):
            left.values.append(right)
            return self._at(left, node)
        operator = ast.And() if isinstance(node.operator, cst.And) else ast.Or()
        return self._at(ast.BoolOp(op=operator, values=[left, right]), node)

    def _comparison(self, node: cst.Comparison, left: ast.expr, ctx: ast.expr_context) -> ast.expr:
        result = ast.Compare(
            left=left,
            ops=[_COMPARISONS[_kind_of(item.operator)] for item in node.comparisons],
            comparators=[self._expr(item.comparator) for item in node.comparisons],
        )
        return self._at(result, node)

    def _call(self, node: cst.Call, func: ast.expr, ctx: ast.expr_context) -> ast.expr:
        args, keywords = self._call_arguments(node.args)
        if len(node.args) == 1:
            only = node.args[0].value
            if isinstance(only, cst.GeneratorExp) and not only.lpar:
                # The call's parentheses double as the generator's.
                start = self._span(node.whitespace_before_args).start - 1
                self._place(args[0], start, self._span(node).end)
        return self._at(ast.Call(func=func, args=args, keywords=keywords), node)

    def _subscript(self, node: cst.Subscript, value: ast.expr, ctx: ast.expr_context) -> ast.expr:
        items = [self._index(item.slice) for item in node.slice]
        first, last = node.slice[0], node.slice[-1]
        index = items[0]
        trailing = isinstance(last.comma, cst.Comma)
        if len(items) > 1 or trailing or (isinstance(index, ast.Starred)):
            end = self._span(last.comma if isinstance(last.comma, cst.Comma) else last).end
            index = ast.Tuple(elts=items, ctx=_LOAD)
            self._place(index, self._span(first).start, end)
        return self._at(ast.Subscript(value=value, slice=index, ctx=ctx), node)

    def _index(self, node: cst.BaseSlice) -> ast.expr:
        if isinstance(node, cst.Index):
            value = self._expr(node.value)
            return self._at(ast.Starred(value=value, ctx=_LOAD), node) if node.star else value
        assert isinstance(node, cst.Slice)
        start = self._span(node.first_colon).start
        end = start + 1
        if node.lower is not None:
            start = self._outer(node.lower).start
        if node.upper is not None:
            end = self._outer(node.upper).end
        if isinstance(node.second_colon, cst.Colon):
            end = self._span(node.second_colon).end
        if node.step is not None:
            end = self._outer(node.step).end
        result = ast.Slice(
            lower=None if node.lower is None else self._expr(node.lower),
            upper=None if node.upper is None else self._expr(node.upper),
            step=None if node.step is None else self._expr(node.step),
        )
        return self._place(result, start, end)

    def _name(self, node: cst.Name, ctx: ast.expr_context) -> ast.expr:
        if node.value in _SINGLETONS:
            return self._at(ast.Constant(value=_SINGLETONS[node.value]), node)
        return self._at(ast.Name(id=_identifier(node.value), ctx=ctx), node)

    def _ellipsis(self, node: cst.Ellipsis, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Constant(value=...), node)

    def _number(self, node: cst.Integer | cst.Float | cst.Imaginary, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Constant(value=self._literal(node.value, self._span(node))), node)

    def _unary(self, node: cst.UnaryOperation, ctx: ast.expr_context) -> ast.expr:
        operand = self._expr(node.expression)
        return self._at(ast.UnaryOp(op=_UNARY[_kind_of(node.operator)], operand=operand), node)

    def _await(self, node: cst.Await, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Await(value=self._expr(node.expression)), node)

    def _yield(self, node: cst.Yield, ctx: ast.expr_context) -> ast.expr:
        if isinstance(node.value, cst.From):
            return self._at(ast.YieldFrom(value=self._expr(node.value.item)), node)
        value = None if node.value is None else self._expr(node.value)
        return self._at(ast.Yield(value=value), node)

    def _if_exp(self, node: cst.IfExp, ctx: ast.expr_context) -> ast.expr:
        result = ast.IfExp(test=self._expr(node.test), body=self._expr(node.body), orelse=self._expr(node.orelse))
        return self._at(result, node)

    def _lambda(self, node: cst.Lambda, ctx: ast.expr_context) -> ast.expr:
        result = ast.Lambda(args=self._arguments(node.params), body=self._expr(node.body))
        return self._at(result, node)

    def _named_expr(self, node: cst.NamedExpr, ctx: ast.expr_context) -> ast.expr:
        target: Any = self._expr(node.target, _STORE)
        return self._at(ast.NamedExpr(target=target, value=self._expr(node.value)), node)

    def _starred(self, node: cst.StarredElement, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Starred(value=self._expr(node.value, ctx), ctx=ctx), node)

    def _elements(self, elements: Iterable[cst.BaseElement], ctx: ast.expr_context) -> list[ast.expr]:
        return [self._expr(item if isinstance(item, cst.StarredElement) else item.value, ctx) for item in elements]

    def _tuple(self, node: cst.Tuple, ctx: ast.expr_context) -> ast.expr:
        result = ast.Tuple(elts=self._elements(node.elements, ctx), ctx=ctx)
        return self._place(result, *self._parenthesized(node))

    def _list(self, node: cst.List, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.List(elts=self._elements(node.elements, ctx), ctx=ctx), node)

    def _set(self, node: cst.Set, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Set(elts=self._elements(node.elements, _LOAD)), node)

    def _dict(self, node: cst.Dict, ctx: ast.expr_context) -> ast.expr:
        keys = [self._expr(item.key) if isinstance(item, cst.DictElement) else None for item in node.elements]
        values = [self._expr(item.value) for item in node.elements]
        return self._at(ast.Dict(keys=keys, values=values), node)

    def _comprehensions(self, node: cst.CompFor) -> list[ast.comprehension]:
        result: list[ast.comprehension] = []
        clause: cst.CompFor | None = node
        while clause is not None:
            result.append(
                ast.comprehension(
                    target=self._expr(clause.target, _STORE),
                    iter=self._expr(clause.iter),
                    ifs=[self._expr(item.test) for item in clause.ifs],
                    is_async=int(clause.asynchronous is not None),
                )
            )
            clause = clause.inner_for_in
        return result

    def _generator(self, node: cst.GeneratorExp, ctx: ast.expr_context) -> ast.expr:
        generators = self._comprehensions(node.for_in)
        result = ast.GeneratorExp(elt=self._expr(node.elt), generators=generators)
        return self._place(result, *self._parenthesized(node))

    def _list_comp(self, node: cst.ListComp, ctx: ast.expr_context) -> ast.expr:
        generators = self._comprehensions(node.for_in)
        return self._at(ast.ListComp(elt=self._expr(node.elt), generators=generators), node)

    def _set_comp(self, node: cst.SetComp, ctx: ast.expr_context) -> ast.expr:
        generators = self._comprehensions(node.for_in)
        return self._at(ast.SetComp(elt=self._expr(node.elt), generators=generators), node)

    def _dict_comp(self, node: cst.DictComp, ctx: ast.expr_context) -> ast.expr:
        result = ast.DictComp(
            key=self._expr(node.key),
            value=self._expr(node.value),
            generators=self._comprehensions(node.for_in),
        )
        return self._at(result, node)

    def _starred_dict_comp(self, node: cst.StarredDictComp, ctx: ast.expr_context) -> ast.expr:
        # From Python 3.15 on the unpacked mapping is the key of a comprehension without value;
        # before, visitors count on a value being there.
        value: Any = None
        if sys.version_info < (3, 15):
            value = self._place(ast.Constant(value=None), *self._outer(node.value))
        result = ast.DictComp(
            key=self._expr(node.value),
            value=value,
            generators=self._comprehensions(node.for_in),
        )
        return self._at(result, node)

    # Strings

    def _literal(self, token: str, span: _Span) -> Any:
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
            raise _refusal(message, self._source, span.start) from error

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
                text = _Span(span.start + 1, end)
                echo = _COMMENT.sub(lambda found: found.group(1) or "", self._slice_text(*text))
                result.append(_Text(echo, text))
            result.append(self._field(part, span, prefix))
        return result

    def _field(self, part: Any, span: _Span, prefix: str) -> ast.expr:
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

    def _decoded(self, text: str, raw: bool, span: _Span) -> str:
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

    # Patterns

    def _pattern(self, node: cst.CSTNode) -> ast.pattern:
        return self._patterns[_kind_of(node)](node)

    def _match_value(self, node: cst.MatchValue) -> ast.pattern:
        return self._at(ast.MatchValue(value=self._expr(node.value)), node.value)

    def _match_singleton(self, node: cst.MatchSingleton) -> ast.pattern:
        return self._at(ast.MatchSingleton(value=_SINGLETONS[node.value.value]), node.value)

    def _match_as(self, node: cst.MatchAs) -> ast.pattern:
        result = ast.MatchAs(
            pattern=None if node.pattern is None else self._pattern(node.pattern),
            name=None if node.name is None else _identifier(node.name.value),
        )
        return self._at(result, node)

    def _match_or(self, node: cst.MatchOr) -> ast.pattern:
        patterns = [self._pattern(item.pattern) for item in node.patterns]
        return self._at(ast.MatchOr(patterns=patterns), node)

    def _match_sequence(self, node: cst.MatchList | cst.MatchTuple) -> ast.pattern:
        patterns = [
            self._match_star(item) if isinstance(item, cst.MatchStar) else self._pattern(item.value)
            for item in node.patterns
        ]
        tuple_like = isinstance(node, cst.MatchTuple)
        span = self._parenthesized(node) if tuple_like else self._span(node)
        return self._place(ast.MatchSequence(patterns=patterns), *span)

    def _match_star(self, node: cst.MatchStar) -> ast.pattern:
        name = None if node.name is None else _identifier(node.name.value)
        return self._at(ast.MatchStar(name=name), node)

    def _match_mapping(self, node: cst.MatchMapping) -> ast.pattern:
        result = ast.MatchMapping(
            keys=[self._expr(item.key) for item in node.elements],
            patterns=[self._pattern(item.pattern) for item in node.elements],
            rest=None if node.rest is None else _identifier(node.rest.value),
        )
        return self._at(result, node)

    def _match_class(self, node: cst.MatchClass) -> ast.pattern:
        result = ast.MatchClass(
            cls=self._expr(node.cls),
            patterns=[self._pattern(item.value) for item in node.patterns],
            kwd_attrs=[_identifier(item.key.value) for item in node.kwds],
            kwd_patterns=[self._pattern(item.pattern) for item in node.kwds],
        )
        return self._at(result, node)
