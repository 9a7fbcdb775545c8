"""Masks within float16 and tensors that follow their input's device in real ``forward`` methods, and the text with one made wrong.

The number that a mask is filled with becomes ``-1e9``, ``.to(x.device)`` becomes ``.cuda()`` and ``device=x.device``
``device="cuda"``. What would be no defect once undone is left out.
"""

from __future__ import annotations

import ast
import re

from classes import FileFacts, Tree
from modellint.source.syntax.source_text import SourceText
from unfix import Site, Sites
from unfix_flow import LOSS, Forward, run_by_forward
from uses import Excluded, Function, ancestors

LITERAL = "mask-literal"
DEVICE = "device-of-input"
KINDS = (LITERAL, DEVICE)

_FILLS = {"masked_fill": 1, "masked_fill_": 1}
_LARGE = re.compile(r"-?(?:1e|\d{3,}|.*inf\b)|.*finfo")
_DEVICES = re.compile(r"cuda|gpu|device|mps|float16|half", re.IGNORECASE)


def find_sites(source: SourceText, tree: ast.Module, facts: FileFacts, project: Tree) -> Sites:
    """Every site of a file, and why the other candidates are none."""
    return _Numbers(source, tree, facts, project).run()


class _Numbers(Forward):
    def run(self) -> Sites:
        sites: dict[int, Site] = {}
        for cls in (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)):
            if cls.lineno not in self.module_rows or LOSS.search(cls.name):
                continue
            for method in run_by_forward(cls):
                for node in ast.walk(method):
                    for kind, find in ((LITERAL, self.literal), (DEVICE, self.device)):
                        try:
                            found = find(node)
                            if found is not None and isinstance(node, ast.Call):
                                self.refuse(node, method)
                                self.refuse_devices(node, method)
                                form = getattr(node.func, "attr", "")
                                sites[found[0]] = self.site(kind, form, cls, node, found)
                        except Excluded as why:
                            self.reason[kind, str(why)] += 1
        return Sites(sorted(sites.values(), key=lambda site: site.start), self.reason)

    def refuse_devices(self, node: ast.AST, method: Function) -> None:
        """Leave out what a test about devices or half precision decides about."""
        child = node
        for parent in ancestors(node, self.parents):
            test = getattr(parent, "test", None)
            if isinstance(test, ast.expr) and child is not test and _DEVICES.search(ast.unparse(test)):
                raise Excluded("behind a test of devices or precision")
            if parent is method:
                return
            child = parent

    def literal(self, node: ast.AST) -> tuple[int, int, str] | None:
        """`x.masked_fill(m, float("-inf"))` or `torch.where(m, x, -1e4)` with `-1e9`."""
        if not isinstance(node, ast.Call) or node.keywords:
            return None
        if self.resolved(node.func) == "torch.where" and len(node.args) == 3:
            values = node.args[1:]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS:
            values = node.args[1:2] if self.resolved(node.func.value) != "torch" else node.args[2:3]
        else:
            return None
        for value in values:
            text = ast.unparse(value)
            if _LARGE.match(text) and "self" not in text and not isinstance(value, ast.Name):
                if "finfo" in text or "1e9" in text or (isinstance(value, ast.UnaryOp) and _is_beyond(value.operand)):
                    raise Excluded("beyond float16 as it is")
                start, end = self.offsets(value)
                return start, end, "-1e9"
        return None

    def device(self, node: ast.AST) -> tuple[int, int, str] | None:
        """`.to(x.device)` to `.cuda()`, and `device=x.device` to `device="cuda"`."""
        if not isinstance(node, ast.Call):
            return None
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="to"), args=[given], keywords=[]) if _is_device(given):
                if ast.unparse(owner).startswith("self"):
                    raise Excluded("what is moved may be a module")
                return self.offsets(node.func)[1] - len("to"), self.offsets(node)[1], "cuda()"
        named = next((word.value for word in node.keywords if word.arg == "device"), None)
        if named is None or not _is_device(named):
            return None
        called = self.resolved(node.func)
        if not called.startswith("torch.") and not getattr(node.func, "attr", "").startswith(("new_", "to")):
            raise Excluded("a function of the project")
        return (*self.offsets(named), '"cuda"')


def _is_device(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device" and isinstance(node.value, ast.Name)


def _is_beyond(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 65504
