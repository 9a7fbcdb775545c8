"""For all tests: `-k CODE` selects those of a rule, and each leaves the process as it was, so that their order does not matter."""

import logging
import re
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType

import pytest

CODE = re.compile(r"[A-Z]{3}[0-9]{3}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let ``-k REG001`` select what names that rule in its text, beside what is called after it."""
    if isinstance(item, pytest.Function) and isinstance(item.function, FunctionType):
        item.extra_keyword_matches |= codes_of(item.function)


@cache
def codes_of(function: FunctionType) -> frozenset[str]:
    """The codes among the constants of a function, and of the functions of its own module that it names."""
    codes: set[str] = set()
    visited = {function}
    pending = [function]
    while pending:
        constants: list[object] = [pending[-1].__code__]
        names = pending.pop().__globals__
        while constants:
            constant = constants.pop()
            if isinstance(constant, CodeType):
                constants += constant.co_consts
                called = {names[name] for name in constant.co_names if isinstance(names.get(name), FunctionType)}
                own = {each for each in called - visited if each.__module__ == function.__module__}
                visited |= own
                pending += own
            elif isinstance(constant, (tuple, frozenset)):
                constants += constant
            elif isinstance(constant, str) and CODE.fullmatch(constant):
                codes.add(constant)
    return frozenset(codes)


def _switches() -> dict[str, object]:
    switches: dict[str, object] = {"logging": logging.root.manager.disable}
    torch = sys.modules.get("torch")
    # Half imported in a process whose import of it has failed.
    if torch is not None and hasattr(torch, "get_default_device"):
        switches["fast path"] = torch.backends.mha.get_fastpath_enabled()
        switches["gradients"] = torch.is_grad_enabled()
        switches["default type"] = torch.get_default_dtype()
        switches["default device"] = torch.get_default_device()
        switches["deterministic"] = torch.are_deterministic_algorithms_enabled()
        switches["modes"] = torch._C._len_torch_function_stack()
    return switches


@pytest.fixture(autouse=True)
def process_is_left_as_it_was() -> Iterator[None]:
    before = _switches()
    yield
    after = _switches()
    if before.keys() == after.keys():
        assert after == before
