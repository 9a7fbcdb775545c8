"""Decompositions of our own that a captured program is converted with, and which of them took part."""

from __future__ import annotations

import contextlib
from typing import Any

from modellint.destinations.coreai.worker.captured_program import copied


class Supply:
    """A captured program, the decompositions that it is given beside the converter's own, and which of them took part.

    Args:
        wanted: Whether it is given any.
        captured: The program.
        plain: It decomposed without them, if that is known.
    """

    def __init__(self, wanted: bool, captured: Any, plain: Any = None) -> None:
        self._wanted = wanted
        self._captured = captured
        self.plain = plain
        """The program decomposed without them, where that was seen on the way."""
        self.refused: dict[str, Any] | None = None
        """What the converter says of the program without them, where it refuses that, and it was seen on the way."""
        self._known: Any = None
        """Its values that depend on no input."""
        self._supplied: dict[Any, Any] = {}
        self._used: dict[str, list[str]] = {}
        self._is_left_out = False
        """Whether a use was not decomposed here of an operator that stays whole only while it is in no table."""

    @property
    def is_plain(self) -> bool:
        """Whether the program is the one that it would be without all this."""
        return not self._used and not self._is_left_out

    def decomposed(self) -> Any:
        """The program decomposed, without products that the converter falls over, or turns into others."""
        import coreai_torch

        from modellint.destinations.capture.decomposition_overhead import decomposed
        from modellint.destinations.coreai import merged_products
        from modellint.destinations.decompositions.table import BIT_EQUAL

        if not self._wanted and self.plain is not None:
            return self.plain
        exported = decomposed(self._captured, self._over(coreai_torch.get_decomp_table()))
        if self._wanted and merged_products.are_in(exported):
            if self.is_plain:
                self.plain = copied(exported)
            for name in sorted(merged_products.part(exported)):
                self._used[name] = [name, BIT_EQUAL, "mended"]
        return exported

    def _over(self, table: Any) -> Any:
        """A table of decompositions with these in it."""
        if not self._wanted:
            return table
        from modellint.destinations.coreai.corrections import mends
        from modellint.destinations.coreai.supplied_decompositions import composites

        self._used.clear()
        self._is_left_out = False
        captured = {node.target for node in self._captured.graph.nodes if node.op == "call_function"}
        ours = {
            operator: self._noting(operator, "mended", _own(table, operator), each)
            for operator, each in mends(captured).items()
            # In no table an operator that is made of others stays whole.
            if operator in table or not operator._can_decompose() or self._has_use_for(operator, each)
        }
        for operator, each in (*composites().items(), *self._supplied.items()):
            ours[operator] = self._noting(operator, "supplied", ours.get(operator) or _own(table, operator), each)
        for operator, function in ours.items():
            table[operator] = function
        return table

    def _has_use_for(self, operator: Any, each: Any) -> bool:
        """Whether a decomposition takes a use of an operator, as the program was captured."""
        import torch
        from torch.fx.node import map_arg

        from modellint.destinations.capture.known_values import KnownValues

        self._known = self._known or KnownValues(self._captured)
        for node in self._captured.graph.find_nodes(op="call_function", target=operator):
            args, kwargs = map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
            mode = getattr(node.meta["val"], "fake_mode", None) or contextlib.nullcontext()
            try:
                if each.is_spared is not None and each.is_spared(node, self._known):
                    continue
                with mode, torch.no_grad():
                    if each.function(*args, **kwargs) is not NotImplemented:
                        return True
            except Exception:
                # It may do so while the program is decomposed.
                return True
        return False

    def _noting(self, operator: Any, kind: str, otherwise: Any, each: Any) -> Any:
        inside = False

        def decomposed(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            result = NotImplemented
            # A use of the operator in its own decomposition is one that the converter takes.
            if not inside:
                inside = True
                # Of sizes that vary, for one: what cannot be decomposed is left to the converter, and to the comparison.
                with contextlib.suppress(Exception):
                    result = each.function(*args, **kwargs)
                inside = False
            if result is NotImplemented:
                self._is_left_out |= otherwise is None and operator._can_decompose()
                return result if otherwise is None else otherwise(*args, **kwargs)
            name = f"{operator.namespace}::{str(operator).split('.')[1]}"
            self._used[name] = [name, each.exactness, kind]
            return result

        return decomposed

    def answers(self, exported: Any, refusals: list[dict[str, Any]]) -> bool:
        """Take in what is known for the operators that were refused; whether there is something new."""
        if not self._wanted:
            return False
        from modellint.destinations.coreai.supplied_decompositions import supplied

        names = {refusal["node"]["name"] for refusal in refusals if refusal["node"] is not None}
        found = {
            node.target: each
            for node in exported.graph.nodes
            if node.op == "call_function" and node.name in names and node.target not in self._supplied
            if (each := supplied(node.target)) is not None
        }
        self._supplied.update(found)
        return bool(found)

    def used(self) -> list[list[str]]:
        """Each with the operator, how exact it is, and whether it is ``supplied`` or ``mended``."""
        return list(self._used.values())


def _own(table: Any, operator: Any) -> Any:
    """The decomposition that a table has for an operator; its `get` gives none of those that PyTorch registers (torch 2.13)."""
    try:
        return table[operator]
    except KeyError:
        return None
