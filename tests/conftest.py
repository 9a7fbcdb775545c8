"""A test leaves the process as it found it, so that the order of the tests does not matter."""

import logging
import sys
from collections.abc import Iterator

import pytest


def _switches() -> dict[str, object]:
    found: dict[str, object] = {"logging": logging.root.manager.disable}
    torch = sys.modules.get("torch")
    # Half imported in a process whose import of it has failed.
    if torch is not None and hasattr(torch, "get_default_device"):
        found["fast path"] = torch.backends.mha.get_fastpath_enabled()
        found["gradients"] = torch.is_grad_enabled()
        found["default type"] = torch.get_default_dtype()
        found["default device"] = torch.get_default_device()
        found["deterministic"] = torch.are_deterministic_algorithms_enabled()
        found["modes"] = torch._C._len_torch_function_stack()
    return found


@pytest.fixture(autouse=True)
def process_is_left_as_it_was() -> Iterator[None]:
    before = _switches()
    yield
    after = _switches()
    if before.keys() == after.keys():
        assert after == before
