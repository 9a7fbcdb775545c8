"""Records of a captured run: operators, calls, module calls, assignments and failures, with facts in the place of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from modellint.results.diagnostic import Place


class TensorFact(NamedTuple):
    """What a run knows of one tensor; no values."""

    shape: tuple[Any, ...]
    """Integers, or symbols for flexible dimensions."""
    dtype: str
    """As in ``float32``."""
    strides: tuple[Any, ...]
    """In elements, like the shape."""
    offset: Any
    device: str
    tensor: int
    """The same number for the same tensor."""
    storage: int
    """The same number for tensors that share memory."""
    name: str | None
    """Of the model's own state its name, of an input ``input:NAME`` or ``input:0``, of a tensor that an attribute holds and
    PyTorch does not register ``hidden:`` and how to get there."""

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def is_input(self) -> bool:
        """Whether it is one that the model was given."""
        return self.name is not None and self.name.startswith("input:")

    @property
    def memory(self) -> tuple[Any, ...]:
        """The same for tensors with the same elements in the same order.

        A view that an operator returns may reach the next operator as another object.
        """
        return self.storage, self.offset, self.shape, self.strides


class Operator(NamedTuple):
    """One operator that PyTorch's dispatcher ran."""

    name: str
    """As in ``aten::view``."""
    overload: str
    arguments: tuple[Any, ...]
    """Tensors are ``TensorFact``s, also inside lists."""
    keywords: Mapping[str, Any]
    outputs: tuple[TensorFact, ...]
    module: str
    """Path of the innermost registered module that was running."""
    place: Place | None
    """The user's statement."""


class Call(NamedTuple):
    """One call of a public function or tensor method of torch by the user's code or a layer's, before it is taken apart."""

    name: str
    """As in ``torch.Tensor.view`` or ``torch.nn.functional.prelu``."""
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    outputs: tuple[TensorFact, ...]
    module: str
    place: Place | None
    refused: str | None = None
    """The message with which a view of memory that it does not fit was refused; the run went on with a copy."""


class ModuleCall(NamedTuple):
    """One call of a module."""

    path: str
    identity: int
    """``id`` of the module."""
    inputs: Any
    """The arguments, with facts for tensors."""
    outputs: Any
    depth: int
    place: Place | None
    """The statement that called it."""
    type: str = ""
    """The name of its class."""
    is_fresh: bool = False
    """Whether the run itself built the module, with parameters or buffers, and the model does not hold it afterwards."""
    built_at: Place | None = None
    """The statement that built such a module, or what it is a part of."""
    completed: bool = True
    """False where it raised, though something around it may have caught that."""


class Failure(NamedTuple):
    """Why a run ended early."""

    kind: str
    """``shape``: an operator was given shapes that do not fit; ``data``: fake tensors have no value to go on with, and a run
    on real ones was not possible; ``error``: anything else."""
    error: str
    """The exception's type."""
    message: str
    module: str
    place: Place | None
    operator: str | None
    arguments: tuple[Any, ...]
    frames: tuple[tuple[str, int, str], ...]
    """The user's own frames, outermost first: file, line, function."""
    function: str | None = None
    """The public function or method of torch that was called, as in ``Call``."""
    identity: int | None = None
    """``id`` of the innermost module that was running; ``module`` is the path of the innermost registered one."""


class Record(NamedTuple):
    """An object among arguments or outputs that is none of Python's own containers."""

    type: str
    """Qualified name of its class."""
    fields: Mapping[str, Any]
    """What it holds, with facts for tensors."""
    is_mapping: bool = False
    is_node: bool = False
    """Whether PyTorch's ``pytree`` takes it apart, as an export does."""


class Assigned(NamedTuple):
    """An attribute that holds something else after a run than before."""

    module: str
    """The path of the module."""
    attribute: str
    kind: str
    """``buffer``, ``parameter`` or ``attribute``."""
    value: Any
    """What it holds now, with facts for tensors."""
    place: Place | None
    """The statement that bound it last; None where its items changed, or nobody saw it."""


class Run(NamedTuple):
    """What one run showed."""

    operators: tuple[Operator, ...]
    calls: tuple[Call, ...]
    modules: tuple[ModuleCall, ...]
    output: Any
    """What the model returned, with facts for tensors; None where it failed."""
    failure: Failure | None = None
    is_fake: bool = True
    """False where the model wants to see values and was run on real ones."""
    assigned: tuple[Assigned, ...] = ()
    """Attributes of the model's modules that held something else at its end than before."""
