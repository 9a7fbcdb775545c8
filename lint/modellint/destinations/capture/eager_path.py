"""Eager path: what a model runs where ``torch.compiler`` says that nothing is compiled. `torch.export` captures the other one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

NOTE = "the path that the model takes as it runs is captured: it cannot be captured on the one that torch.compiler.is_compiling() leads to"
_QUERIES = ("is_compiling", "is_exporting", "is_dynamo_compiling")
_TORCH = torch.__name__
_SCOPE = threading.RLock()
"""Held while the queries are replaced: scopes of two threads that overlap would leave one of them replaced."""


@contextmanager
def noticed() -> Iterator[list[str]]:
    """Scope that notes which of the queries whether something is compiled code outside of PyTorch makes."""
    made: list[str] = []

    def asked(name: str, query: Callable[[], bool]) -> bool:
        made.append(name)
        return query()

    with _in_place_of_queries(asked):
        yield made


@contextmanager
def taken() -> Iterator[None]:
    """Scope in which code outside of PyTorch is told that nothing is compiled; PyTorch's own is told what is."""
    with _in_place_of_queries(lambda name, query: False):
        yield


@contextmanager
def _in_place_of_queries(answer: Callable[[str, Callable[[], bool]], bool]) -> Iterator[None]:
    def replacement(name: str, query: Callable[[], bool]) -> Callable[[], bool]:
        def replaced() -> bool:
            return answer(name, query) if _is_asked_outside(sys._getframe(1)) else query()

        return replaced

    with _SCOPE:
        queries = {name: getattr(torch.compiler, name) for name in _QUERIES if hasattr(torch.compiler, name)}
        for name, query in queries.items():
            setattr(torch.compiler, name, replacement(name, query))
        try:
            yield
        finally:
            for name, query in queries.items():
                setattr(torch.compiler, name, query)


def _is_asked_outside(frame: Any) -> bool:
    """Whether a query comes from code that is not PyTorch's: its older names (`torch._dynamo.is_compiling`) hand it on."""
    while frame.f_code.co_name in _QUERIES and _is_of_torch(frame) and frame.f_back is not None:
        frame = frame.f_back
    return not _is_of_torch(frame)


def _is_of_torch(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _TORCH
