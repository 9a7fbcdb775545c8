"""Arguments of calls: whether a function takes what a call gives it."""

from __future__ import annotations

import ast

from modellint.source.syntax.ast_walk import Function


def misfits(function: Function, call: ast.Call) -> bool:
    """Whether a method that is called on an object, or a constructor, certainly raises for the arguments that a call gives it."""
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    if not placed:
        return False
    positional = [argument.arg for argument in placed[1:]]
    only_by_place = {argument.arg for argument in arguments.posonlyargs}
    by_name = {*positional, *(argument.arg for argument in arguments.kwonlyargs)} - only_by_place
    words = [name for word in call.keywords for name in _names_given(word)]
    if any(word is not None and word not in by_name for word in words) and arguments.kwarg is None:
        return True
    if any(isinstance(part, ast.Starred) for part in call.args):
        return False
    count = len(call.args)
    if count > len(positional) and arguments.vararg is None:
        return True
    if set(words) & set(positional[:count]):
        return True
    if None in words:
        return False
    required = positional[: len(positional) - len(arguments.defaults)] if arguments.defaults else positional
    named = [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return any(name not in words for name in (*required[count:], *named))


def _names_given(word: ast.keyword) -> list[str | None]:
    """The names that an argument is given by; None stands for those that are not known."""
    match word:
        case ast.keyword(arg=None, value=ast.Dict(keys=keys)):
            return [key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None for key in keys]
    return [word.arg]
