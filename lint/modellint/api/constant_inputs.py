"""Inputs of a model that become constants of what is made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def with_constants(model: nn.Module, example_inputs: Any, *names: str) -> tuple[nn.Module, Any]:
    """A model without some of its inputs, as they are always what they are in the example, and the inputs that are left.

    So can a model be exported whose sizes and branches are values of an input, such as the grid of a picture's patches, where it is
    deployed for one of them. A function that a target names can return the result as it stands.

    Args:
        model: It is left as it was, and the result shares its parameters.
        example_inputs: A tuple of arguments, a dict of keyword arguments, or the one argument.
        names: Of arguments of ``forward``.

    Returns:
        The model, in which tensors are buffers ``constant_NAME`` that no ``state_dict`` has, and the rest of ``example_inputs``, a
        tuple or a dict.

    Raises:
        TypeError: For what is no model, and for names that are no strings.
        ValueError: For names that the inputs do not have, and for all names that they have.
    """
    from torch import nn

    from modellint.live.inputs import constant_arguments
    from modellint.live.inputs.declared_inputs import inputs_of

    if not isinstance(model, nn.Module):
        raise TypeError(f"an nn.Module is needed, not {type(model).__name__}")
    if unnamed := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"names of inputs are strings, not {unnamed[0]!r}")
    twin, rest = constant_arguments.with_constants(model, inputs_of(example_inputs), names)
    return twin, dict(rest.kwargs) if rest.kwargs else rest.args
