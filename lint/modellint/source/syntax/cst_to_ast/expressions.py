"""Expressions, with parameters and arguments."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from typing import Any

import libcst as cst

from modellint.source.syntax.cst_to_ast.literals import Strings
from modellint.source.syntax.cst_to_ast.positions import LOAD, STORE
from modellint.source.syntax.cst_to_ast.token_positions import identifier, kind_of

OPERATORS: dict[str, ast.operator] = {
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


SINGLETONS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


class Expressions(Strings):
    """Whatever has a value."""

    def __init__(self, module: cst.Module, parsed: str, source: str) -> None:
        super().__init__(module, parsed, source)
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
        result = ast.arg(arg=identifier(node.name.value), annotation=annotation)
        return self._place(result, start, end)

    def _call_arguments(self, args: Iterable[cst.Arg]) -> tuple[list[ast.expr], list[ast.keyword]]:
        positional: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        for item in args:
            value = self._expr(item.value)
            if item.star == "**" or item.keyword is not None:
                name = None if item.keyword is None else identifier(item.keyword.value)
                keywords.append(self._at(ast.keyword(arg=name, value=value), item))
            elif item.star == "*":
                positional.append(self._at(ast.Starred(value=value, ctx=LOAD), item))
            else:
                positional.append(value)
        return positional, keywords

    def _expr(self, node: cst.CSTNode, ctx: ast.expr_context = LOAD) -> ast.expr:
        links: list[tuple[cst.CSTNode, ast.expr_context]] = []
        while (field := _SPINE.get(kind_of(node))) is not None:
            links.append((node, ctx))
            node, ctx = getattr(node, field), LOAD
        result = self._expressions[kind_of(node)](node, ctx)
        for link, link_ctx in reversed(links):
            result = self._links[kind_of(link)](link, result, link_ctx)
        return result

    def _attribute(self, node: cst.Attribute, value: ast.expr, ctx: ast.expr_context) -> ast.expr:
        attr = identifier(node.attr.value)
        return self._at(ast.Attribute(value=value, attr=attr, ctx=ctx), node)

    def _binary(self, node: cst.BinaryOperation, left: ast.expr, ctx: ast.expr_context) -> ast.expr:
        operator = OPERATORS[kind_of(node.operator)]
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
            ops=[_COMPARISONS[kind_of(item.operator)] for item in node.comparisons],
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
            index = ast.Tuple(elts=items, ctx=LOAD)
            self._place(index, self._span(first).start, end)
        return self._at(ast.Subscript(value=value, slice=index, ctx=ctx), node)

    def _index(self, node: cst.BaseSlice) -> ast.expr:
        if isinstance(node, cst.Index):
            value = self._expr(node.value)
            return self._at(ast.Starred(value=value, ctx=LOAD), node) if node.star else value
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
        if node.value in SINGLETONS:
            return self._at(ast.Constant(value=SINGLETONS[node.value]), node)
        return self._at(ast.Name(id=identifier(node.value), ctx=ctx), node)

    def _ellipsis(self, node: cst.Ellipsis, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Constant(value=...), node)

    def _number(self, node: cst.Integer | cst.Float | cst.Imaginary, ctx: ast.expr_context) -> ast.expr:
        return self._at(ast.Constant(value=self._literal(node.value, self._span(node))), node)

    def _unary(self, node: cst.UnaryOperation, ctx: ast.expr_context) -> ast.expr:
        operand = self._expr(node.expression)
        return self._at(ast.UnaryOp(op=_UNARY[kind_of(node.operator)], operand=operand), node)

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
        target: Any = self._expr(node.target, STORE)
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
        return self._at(ast.Set(elts=self._elements(node.elements, LOAD)), node)

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
                    target=self._expr(clause.target, STORE),
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
