"""FLW008: a call, or an import, that raises whatever the model is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import ClassRef, Diagnostic, Rule, Severity, Trigger, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Code
    from modellint_rules.flow.call_signatures import Function


class CallThatRaises(Rule):
    """A call, or an import, that raises whatever the model is given, by the project's own definitions.

    ## What it does
    Finds, in constructors of modules and in what `forward` runs, calls of the project's own functions, methods, classes and submodules
    with an argument that these do not take, or without one that they need, or with a whole number of which a constructor makes a tensor
    that asks for gradients; attributes of a tuple, such as `norm`, where a
    method of the class gives a tuple; and names that a file of models imports from another file that does not define them.

    ## Why
    Such a class cannot be built, or its `forward` cannot run: nothing is captured. Most often one side of the call was
    changed and the other was not.

    ## Bad
    ```python
    from torch import nn


    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x):
            return self.linear(x)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(8, dropout=0.1)

        def forward(self, x):
            return self.block(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Block(nn.Module):
        def __init__(self, width, dropout=0.0):
            super().__init__()
            self.linear = nn.Linear(width, width)
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            return self.dropout(self.linear(x))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(8, dropout=0.1)

        def forward(self, x):
            return self.block(x)
    ```

    ## Fix safety
    There is no fix: which side is right nobody can say.

    ## Known limits
    Only source is asked; a live model that raises is LNT003's. What is called has to be found for certain: a function or class of
    the project without decorators, that is bound once, and all of whose bases are known. What stands in a `try` is left alone;
    what stands under a condition is a warning.

    ## References
    - <https://docs.python.org/3/reference/expressions.html#calls>
    """

    code = "FLW008"
    name = "call-that-raises"
    severity = Severity.ERROR
    advice = "Bring the call and the definition together"
    only_inference = True
    only_modules = True
    needs = (Trigger.CALLS_PROJECT,)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call of a constructor, and of what `forward` runs, whether what it runs takes its arguments."""
        if code.ref is None or code.ref.file is not code.file:
            return
        own = code.ref.file.members(code.ref.node)
        methods = {node for node in own.values() if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        found = [
            finding
            for function in sorted(methods, key=lambda node: node.lineno)
            for finding in self._in(code, function)
        ]
        classes = (node for node in code.file.tree.body if isinstance(node, ast.ClassDef))
        first = next((node for node in classes if code.project.is_module(ClassRef(code.file, node))), None)
        if first is code.ref.node:
            found += self._imports(code)
        if found:
            from modellint_rules.flow.call_signatures import is_written_for_a_generator

            if not is_written_for_a_generator(code):
                yield from found

    def _in(self, code: Code, function: Function) -> Iterator[Diagnostic]:
        from modellint_rules.flow.call_signatures import is_certain, is_overridden, mismatch, refused_number, target

        for call in of_kind(function, ast.Call):
            found = target(code, call, function)
            why = mismatch(found, call) if found is not None else None
            error = "TypeError"
            if found is not None and why is None:
                number = refused_number(code, found, call)
                error = "RuntimeError"
                why = f"makes `{number}`, and whole numbers have no gradients" if number is not None else None
            if found is None or why is None or _is_tried(code, call, function) or not _is_run(code, function):
                continue
            if found.first and not is_certain(code, found.first, found.path):
                continue
            if found.name.startswith(f"{code.name}.") and is_overridden(code, found.node.name):
                continue
            yield code.finding(
                self,
                call,
                f"`{found.name}` {why}: this call raises `{error}`",
                severity=self._severity(code, call, function),
                statement=code.statement_of(call, function),
                advice=self.advice,
            )
        yield from self._of_tuples(code, function)

    def _of_tuples(self, code: Code, function: Function) -> Iterator[Diagnostic]:
        from modellint_rules.flow.call_signatures import is_overridden

        for node, method in _attributes_of_tuples(code, function):
            if not _is_tried(code, node, function) and not is_overridden(code, method) and _is_run(code, function):
                yield code.finding(
                    self,
                    node,
                    f"`{code.name}.{method}` gives a tuple, which has no `{node.attr}`: this raises `AttributeError`",
                    severity=self._severity(code, node, function),
                    statement=code.statement_of(node, function),
                    advice=self.advice,
                )

    def _imports(self, code: Code) -> Iterator[Diagnostic]:
        from modellint_rules.flow.call_signatures import missing_names

        for statement, name, path in missing_names(code):
            yield code.finding(
                self,
                statement,
                f"`{name}` is not in {path.rpartition('/')[2]}: this file cannot be imported",
                statement=statement,
                advice="Import what is there",
            )

    def _severity(self, code: Code, node: ast.expr, function: Function) -> Severity:
        is_conditional = any(True for _ in code.conditions(node, function))
        usual = Severity.WARNING if is_conditional else self.severity
        return usual if function.name == "__init__" else code.severity_at(usual, node, function)


def _is_run(code: Code, function: Function) -> bool:
    """Whether a method is the constructor, or `forward` runs it: asked last, as the class is read for it."""
    return function.name == "__init__" or function in code.in_forward


def _is_tried(code: Code, node: ast.expr, function: Function) -> bool:
    """Whether a node stands in a `try`, or in a function or lambda inside the function, which somebody else may call."""
    inner = once(function, "_tried", _tried)
    return node in inner


def _tried(function: Function) -> frozenset[ast.AST]:
    kinds = (ast.Try, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(part for kind in kinds for each in of_kind(function, kind) for part in walk(each))


_OF_TUPLES = frozenset(dir(tuple))


def _attributes_of_tuples(code: Code, function: Function) -> Iterator[tuple[ast.Attribute, str]]:
    """The attributes that a function asks a tuple for which a method of the class has given, and which no tuple has."""
    from modellint_rules.flow.call_signatures import tuple_given

    for node in of_kind(function, ast.Attribute):
        if isinstance(node.value, ast.Call) and node.attr not in _OF_TUPLES:
            method = tuple_given(code, node.value)
            if method is not None:
                yield node, method
    for at, statement in enumerate(function.body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                method = tuple_given(code, call)
            case _:
                continue
        # Up to the statement that binds the variable anew, which reads it first.
        for behind in function.body[at + 1 :] if method is not None else ():
            stores = [part for part in walk(behind) if isinstance(part, ast.Name) and part.id == name]
            binds = any(not isinstance(part.ctx, ast.Load) for part in stores)
            if binds and not isinstance(behind, ast.Assign):
                break
            for part in walk(behind):
                match part:
                    case ast.Attribute(value=ast.Name(id=asked)) if asked == name and method is not None:
                        if part.attr not in _OF_TUPLES:
                            yield part, method
                    case _:
                        pass
            if binds:
                break
