"""Random numbers of a model that become inputs of what is made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs


def with_random_inputs(model: nn.Module, example_inputs: Any) -> tuple[nn.Module, Inputs]:
    """A model that takes the random numbers which it draws in ``forward`` as inputs, and the inputs with such numbers.

    A converted program draws numbers of its own, if it can draw any, and can be compared with nothing. Given the numbers, it is a
    function of its inputs. They are standard ones: normal numbers of mean 0 and deviation 1 (``random_normal``), uniform ones from
    0 up to 1 (``random_uniform``), exponential ones of rate 1 (``random_exponential``), or integers of the range that the model asks
    for (``random_integers``); means, deviations, probabilities and weights stay in the model. A permutation is the order of uniform
    numbers. A function that a target names can return the result as it stands.

    Args:
        model: It is run a few times in evaluation mode, left as it was, and the result shares its parameters.
        example_inputs: A tuple of arguments, a dict of keyword arguments, or the one argument.

    Returns:
        The model, and its inputs: ``args``, ``kwargs``, and the ranges of the numbers.

    Raises:
        TypeError: For what is no model.
        ValueError: For a model that draws no numbers, or the same ones at every run, or others too (in hooks, by ``nn.init``), a compiled
            one, and sizes that may vary.
    """
    from torch import nn

    from modellint.live.inputs import random_numbers
    from modellint.live.inputs.declared_inputs import inputs_of

    if not isinstance(model, nn.Module):
        raise TypeError(f"an nn.Module is needed, not {type(model).__name__}")
    return random_numbers.with_random_inputs(model, inputs_of(example_inputs))
