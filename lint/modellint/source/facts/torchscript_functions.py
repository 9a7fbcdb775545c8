"""TorchScript: which functions it compiles, so that a trace keeps their branches, their loops and the numbers that they take out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.source.project.external_name_facts import COMPILERS
from modellint.source.project.symbols import External, dotted_name

if TYPE_CHECKING:
    import ast

    from modellint.source.engine.abstract_values import Function
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile


def is_compiled(project: Project, function: Function) -> bool:
    """Whether TorchScript may compile a function: it was given to `torch.jit.script` or its like, or is decorated with it."""
    if function.compiled:
        return True
    decorators = getattr(function.node, "decorator_list", ())
    return any(_compiles(project, function.file, decorator) for decorator in decorators)


def _compiles(project: Project, file: IndexedFile, decorator: ast.expr) -> bool:
    dotted = dotted_name(decorator)
    return dotted is not None and any(
        isinstance(symbol, External) and symbol.name in COMPILERS for symbol in project.meanings(file, dotted)
    )
