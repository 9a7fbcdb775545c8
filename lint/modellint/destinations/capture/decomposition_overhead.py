"""Overhead of decompositions: what PyTorch does again for every namespace of operators, or checks for every one of 1,900 kernels.

Measured of the decomposition of a transformer of two layers (torch 2.14): a third of its CPU time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def decomposed(program: Any, table: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """An exported program decomposed by a table, as ``run_decompositions`` does; by default to core ATen operators."""
    with _operators_found_once(), _kernels_given_directly():
        return program.run_decompositions(table)


@contextmanager
def _operators_found_once() -> Iterator[None]:
    """Look for the operators that are made of others once: PyTorch asks for all of them again for each namespace."""
    from torch._export import utils

    find: Callable[[], None] | None = getattr(utils, "_materialize_cpp_cia_ops", None)
    if find is None:
        yield
        return
    is_done = False

    def once() -> None:
        nonlocal is_done
        if not is_done:
            find()
            is_done = True

    utils._materialize_cpp_cia_ops = once
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = find


@contextmanager
def _kernels_given_directly() -> Iterator[None]:
    """Let operators take the kernels of dispatch keys without a look at which kind of key it is."""
    from torch._ops import OperatorBase

    base: Any = OperatorBase
    register: Callable[..., Any] = base.py_impl
    keys = torch._C.DispatchKey

    def registering(self: Any, key: Any) -> Any:
        if not isinstance(key, keys) or key == keys.Python or key in self.py_kernels:
            return register(self, key)

        def given(kernel: Any) -> Any:
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return given

    base.py_impl = registering
    try:
        yield
    finally:
        base.py_impl = register
