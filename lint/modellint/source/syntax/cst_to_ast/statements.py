"""Statements, and the module that they make."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from typing import Any

import libcst as cst

from modellint.source.syntax.cst_to_ast.expressions import OPERATORS
from modellint.source.syntax.cst_to_ast.patterns import Patterns
from modellint.source.syntax.cst_to_ast.positions import LOAD, STORE, Located
from modellint.source.syntax.cst_to_ast.token_positions import dotted, identifier, kind_of

_DEL = ast.Del()


class Lowering(Patterns):
    """Conversion of one module."""

    def __init__(self, module: cst.Module, parsed: str, source: str) -> None:
        super().__init__(module, parsed, source)
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
        """The tree."""
        body, _ = self._statements(self._module.body)
        return ast.Module(body=body, type_ignores=[])

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
                    result.append(self._simple[kind_of(small)](small))
                    end = self._small_end(small)
            else:
                converted, end = self._compound[kind_of(statement)](statement)
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

    def _compound_at(self, node: Located, origin: cst.CSTNode, end: int) -> tuple[Located, int]:
        return self._place(node, self._span(origin).start, end), end

    def _function_def(self, node: cst.FunctionDef) -> tuple[ast.stmt, int]:
        body, end = self._block(node.body)
        kind: Any = ast.FunctionDef if node.asynchronous is None else ast.AsyncFunctionDef
        result: ast.stmt = kind(
            name=identifier(node.name.value),
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
            name=identifier(node.name.value),
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
        fields: dict[str, Any] = {"name": identifier(node.param.name.value)}
        if isinstance(node.param, cst.TypeVar):
            bound = node.param.bound
            fields["bound"] = None if bound is None else self._expr(bound)
        if sys.version_info >= (3, 13):
            default = None if node.default is None else self._expr(node.default)
            if node.default is not None and default is not None:
                end = self._outer(node.default).end
                if node.star:
                    star = self._span(node.whitespace_after_star).start - len(node.star)
                    default = self._place(ast.Starred(value=default, ctx=LOAD), star, end)
            fields["default_value"] = default
        kind: Any = getattr(ast, kind_of(node.param))
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
        target = self._expr(node.target, STORE)
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
                optional_vars=(None if item.asname is None else self._expr(item.asname.name, STORE)),
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
                name=identifier(name.value) if isinstance(name, cst.Name) else None,
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
        targets = [self._expr(item.target, STORE) for item in node.targets]
        return self._at(ast.Assign(targets=targets, value=self._expr(node.value)), node)

    def _ann_assign(self, node: cst.AnnAssign) -> ast.stmt:
        target: Any = self._expr(node.target, STORE)
        result = ast.AnnAssign(
            target=target,
            annotation=self._expr(node.annotation.annotation),
            value=None if node.value is None else self._expr(node.value),
            simple=int(isinstance(node.target, cst.Name) and not node.target.lpar),
        )
        return self._at(result, node)

    def _aug_assign(self, node: cst.AugAssign) -> ast.stmt:
        target: Any = self._expr(node.target, STORE)
        result = ast.AugAssign(
            target=target,
            op=OPERATORS[kind_of(node.operator).removesuffix("Assign")],
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
        names = [identifier(item.name.value) for item in node.names]
        return self._at(ast.Global(names=names), node)

    def _nonlocal(self, node: cst.Nonlocal) -> ast.stmt:
        names = [identifier(item.name.value) for item in node.names]
        return self._at(ast.Nonlocal(names=names), node)

    def _import(self, node: cst.Import | cst.LazyImport) -> ast.stmt:
        names = [self._alias(item) for item in node.names]
        return self._at(self._laziness(ast.Import(names=names), node), node)

    def _import_from(self, node: cst.ImportFrom | cst.LazyImportFrom) -> ast.stmt:
        if isinstance(node.names, cst.ImportStar):
            names = [self._at(ast.alias(name="*", asname=None), node.names)]
        else:
            names = [self._alias(item) for item in node.names]
        module = None if node.module is None else dotted(node.module)
        result = ast.ImportFrom(module=module, names=names, level=len(node.relative))
        return self._at(self._laziness(result, node), node)

    def _laziness(self, node: Located, origin: cst.CSTNode) -> Located:
        if "is_lazy" in node._fields:
            lazy: Any = node
            lazy.is_lazy = int(kind_of(origin).startswith("Lazy"))
        return node

    def _alias(self, node: cst.ImportAlias) -> ast.alias:
        asname = None if node.asname is None else node.asname.name
        result = ast.alias(
            name=dotted(node.name),
            asname=identifier(asname.value) if isinstance(asname, cst.Name) else None,
        )
        return self._at(result, node)

    def _type_alias(self, node: cst.TypeAlias) -> ast.stmt:
        name = self._expr(node.name, STORE)
        value = self._expr(node.value)
        result: ast.stmt
        if sys.version_info >= (3, 12):
            kind: Any = ast.TypeAlias
            result = kind(name=name, value=value, **self._type_params(node.type_parameters))
        else:
            result = ast.Assign(targets=[name], value=value)
        return self._at(result, node)
