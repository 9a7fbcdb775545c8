"""Tensors as abstract values: rank and layout, where they come from, whose memory they share, whether a graph hangs on them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains.memory_layout import MOST_DIMENSIONS, ONE, is_fixed
from modellint.source.domains.operator_sets import VIEWS
from modellint.source.engine.abstract_values import Instance, Value

if TYPE_CHECKING:
    from modellint.source.domains.memory_layout import Dim, Layout
    from modellint.source.engine.abstract_values import Callee

_OF_FRACTIONS = frozenset(
    {"softmax", "log_softmax", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "log", "layer_norm", "normalize", "cdist"}
    | {"true_divide", "mean", "var", "std", "norm", "gelu", "rand", "randn", "rand_like", "randn_like", "sin", "cos"}
)
"""Operators that give fractions of whole numbers, too."""
_OF_FLOATS = _OF_FRACTIONS | {
    *("matmul", "bmm", "baddbmm", "linear", "float", "half", "div", "scaled_dot_product_attention", "interpolate")
}
"""Operators that give floating-point numbers of whatever they are given."""
_LAYERS_OF_FRACTIONS = (
    *("Linear", "Conv", "LayerNorm", "BatchNorm", "GroupNorm"),
    *("Sigmoid", "Tanh", "Softmax", "GELU", "SiLU"),
)
_CASTS = frozenset({"to", "type", "float", "half", "double", "cuda", "cpu", "type_as"})
TO_INTEGERS = frozenset({"int", "long", "short"})
FORGOTTEN = "not counted"
"""Under this is told that a tensor, and what it is a view of, was changed in place."""
CUT = "cut"
"""Under this is told of a tensor of integers that it is one of floats without their fractions."""
_OF_INTEGERS = frozenset(f"{name}Tensor" for name in ("Byte", "Char", "Short", "Int", "Long", "Bool"))
_OF_DEFAULT_TYPE = frozenset({"zeros", "ones", "eye"})
"""Factories that give floating-point numbers where no type is said."""


def _is_integer_type(node: ast.expr) -> bool:
    """Whether an expression is the name of one of torch's types of 16 and more bits for integers."""
    names = {*TO_INTEGERS, "int16", "int32", "int64"}
    return isinstance(node, ast.Attribute) and ast.unparse(node) in {f"torch.{name}" for name in names}


def _is_fractional(node: ast.AST | None) -> bool:
    """Whether an operator on a tensor gives fractions of whole numbers too: a quotient does, and a literal that has one."""
    if not isinstance(node, ast.BinOp):
        return False
    literals = [
        side.value
        for side in (node.left, node.right)
        if isinstance(side, ast.Constant) and isinstance(side.value, float)
    ]
    by_literal = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and any(value % 1 for value in literals)
    return isinstance(node.op, ast.Div) or by_literal


class Tensor(Instance):
    """A tensor.

    ``layout`` is None where nothing is known of it. ``origin``: ``argument``, ``parameter``, ``buffer``, ``constant`` (made by
    a factory), ``computed``, or ``unseen`` (given by code that was not followed). ``certain``: it is a tensor and nothing else.
    ``assumed``: it, or what it was made of, comes from code that was not followed, and is taken to be contiguous. ``grad``:
    whether a graph hangs on it in training; None where that is not known. ``base``: the tensor whose memory it shares.
    ``refused``: the view that made it raises. ``batch``: None where it does not depend on what the caller gives; else whether
    the first dimension of that, the batch in most models, may still be there. ``dim``: the size that it stands for if it is a
    number and no tensor; so are the elements of a tuple of sizes, told from each other or not. ``shown``: what is done with it
    says that it is a tensor, though it may come from code that was not followed.
    """

    __slots__ = (
        "_owned",
        "_root",
        "assumed",
        "base",
        "batch",
        "certain",
        "dim",
        "grad",
        "layout",
        "made_by",
        "origin",
        "refined",
        "refused",
        "shown",
        "told",
    )

    def __init__(
        self,
        node: ast.AST | None,
        layout: Layout | None,
        origin: str = "computed",
        *,
        kind: str = "tensor",
        name: str = "",
        callee: Callee | None = None,
        certain: bool = True,
        assumed: bool = False,
        grad: bool | None = False,
        base: Tensor | None = None,
        made_by: str = "",
        batch: bool | None = None,
        shown: bool = False,
    ) -> None:
        super().__init__(kind, node, name, callee)
        self.shown = shown
        self.layout = layout
        self.origin = origin
        self.certain = certain
        self.assumed = assumed
        self.grad = grad
        self.base = base
        self.made_by = made_by
        self.refused = False
        self.batch = batch
        self.dim: Dim | None = None
        self.refined: Tensor | None = None
        """The same tensor from where on its rank is known."""
        self.told: dict[str, bool] | None = None
        """What rules found out about it, by the name of the question."""
        self._root: Tensor | None = None
        self._owned: bool | None = None

    @property
    def is_data(self) -> bool:
        """Whether it certainly is a tensor that depends on what the caller gives."""
        return self.is_tensor and self.batch is not None

    @property
    def is_tensor(self) -> bool:
        """Whether it certainly is a tensor."""
        return self.certain or self.shown

    @property
    def is_made(self) -> bool:
        """Whether it certainly is a tensor that the code itself makes, whatever the caller gives."""
        return self.certain and self.origin not in ("argument", "unseen")

    @property
    def ranks(self) -> range:
        """How many dimensions the code itself gives it, or asks of it before; empty where it says nothing."""
        if self.layout is None:
            return range(0)
        rank = None if self.assumed or not self.is_made else self.layout.rank
        return range(self.layout.least_rank, MOST_DIMENSIONS if rank is None else rank + 1)

    @property
    def is_float(self) -> bool:
        """Whether it certainly holds floating-point numbers, by the operator that made it."""
        part: Tensor | None = self
        while part is not None:
            name = part.made_by
            if name in _OF_FLOATS or name.startswith("conv") or part.kind == "parameter":
                return True
            if name[:1].isupper():
                return name not in _OF_INTEGERS
            if isinstance(part.node, ast.BinOp) and isinstance(part.node.op, ast.Div):
                return True
            if name in _OF_DEFAULT_TYPE and isinstance(part.node, ast.Call):
                return all(word.arg not in ("dtype", None) for word in part.node.keywords)
            part = part.base if name not in ("to", "type") else None
        return False

    @property
    def is_fractional(self) -> bool:
        """Whether it certainly holds floating-point numbers that are not whole for whole operands, and that nothing has rounded."""
        part: Tensor | None = self
        while part is not None and (part.told is None or FORGOTTEN not in part.told):
            name = part.made_by
            if name in _OF_FRACTIONS or name.startswith(_LAYERS_OF_FRACTIONS) or _is_fractional(part.node):
                return True
            part = part.base if name in VIEWS else None
        return False

    @property
    def is_cut(self) -> bool:
        """Whether it certainly holds the integers that a cast made of floating-point numbers, which nothing had rounded before."""
        if self.made_by not in ("to", "type") or not isinstance(self.node, ast.Call):
            return self.told is not None and CUT in self.told
        written = [*self.node.args[:1], *(word.value for word in self.node.keywords if word.arg == "dtype")]
        return len(written) == 1 and _is_integer_type(written[0]) and self.base is not None and self.base.is_fractional

    @property
    def is_counted(self) -> bool:
        """Whether coremltools certainly holds its floats as integers (``counted_floats``)."""
        part: Tensor | None = self
        while part is not None and part.kind == "tensor":
            if part.told is not None and "counted" in part.told:
                return True
            part = part.base if part.made_by not in _CASTS else None
        return False

    def differs_in_shape(self, other: Tensor) -> bool:
        """Whether it certainly is of another shape than another tensor, which is no single number either."""
        if self.layout is None or other.layout is None:
            return False
        return 0 not in (self.rank, other.rank) and self.layout.differs_in_shape(other.layout)

    def has_fixed_size(self, dim: int) -> bool:
        """Whether the size of a dimension is made of numbers that the code knows, or is given as numbers."""
        axis = self.layout.size(dim) if self.layout is not None else None
        if axis is not None and is_fixed(axis[1]):
            return True
        return self.refined is not None and self.refined.has_fixed_size(dim)

    def has_size_one(self, dim: int) -> bool:
        """Whether a dimension is known to have one element."""
        axis = self.layout.size(dim) if self.layout is not None else None
        return axis is not None and axis[1] == ONE

    def unbatched(self) -> Tensor:
        """The same tensor, noted to be one of a batch."""
        self.batch = None if self.batch is None else False
        return self

    @property
    def rank(self) -> int | None:
        """The number of dimensions, where it is known."""
        return self.layout.rank if self.layout is not None else None

    @property
    def root(self) -> Tensor:
        """The tensor at the bottom of its views."""
        found = self
        above: list[Tensor] = []
        while found.base is not None:
            if found._root is None:
                above.append(found)
            found = found._root or found.base
        # A chain of views is gone down once, not from each of them.
        for part in above:
            part._root = found
        return found

    @property
    def registered(self) -> bool:
        """Whether it is a parameter or a buffer, or a view of one."""
        found: Tensor | None = self
        above: list[Tensor] = []
        while found is not None and found.kind == "tensor" and found._owned is None:
            above.append(found)
            found = found.base
        owned = found is not None and (found.kind != "tensor" or bool(found._owned))
        for part in above:
            part._owned = owned
        return owned


class Device(Value):
    """`x.device`: where a tensor lies is not known, but a device is true."""

    __slots__ = ()

    @property
    def is_unseen(self) -> bool:
        """Nothing else is known of it."""
        return True

    @property
    def is_always_true(self) -> bool:
        """It is."""
        return True


DEVICE = Device()
