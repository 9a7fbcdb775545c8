"""Package of Core AI as a comparison runs it: by Apple's interpreter, in the process of the converter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from modellint.destinations.comparison.program import Misfit, RunError, Unanswered
from modellint.destinations.coreai.converter_process import ConverterProcess, Died, Failed, Hung, Interface
from modellint.live.inputs.branch_boundary_sizes import Thresholds

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreai.conversion import Converted

_DOES_NOT_FIT = ("OverflowError",)


class CoreAIProgram:
    """A package, and the states that it starts with: those of the model's buffers, and of other tensors that it holds and writes."""

    casts_beyond = False
    """Nothing tells."""
    adds_in_order = True
    """As measured."""
    unreached = sides = 0
    """Nothing tells."""

    def __init__(
        self,
        process: ConverterProcess,
        package: str,
        interface: Interface,
        buffers: Mapping[str, Tensor],
        attributes: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        self._process = process
        self._package = package
        self._interface = interface
        self.output_names = interface.outputs
        own = {state: name for state, name in interface.states.items() if not name.isdecimal()}
        self.buffers = {state: name for state, name in own.items() if name in buffers}
        self._of_inputs = {state: int(at) for state, at in interface.states.items() if at.isdecimal()}
        held = {**attributes, **buffers}
        self._initial = {state: held[name].detach().clone() for state, name in own.items()}
        self.is_stateful = bool(own)
        self.states: Mapping[str, Tensor] = self._initial
        self.stop: Died | Failed | None = None
        """Why the first prediction that failed was not made."""

    @property
    def updated(self) -> frozenset[str]:
        """The names of the states that it writes: all, as what is not written is a constant."""
        return frozenset(self.buffers)

    def counted(self, leaves: Sequence[Any]) -> Mapping[Any, tuple[int, ...]]:
        """Nothing tells."""
        return {}

    @property
    def thresholds(self) -> Thresholds:
        """None are known."""
        return Thresholds((), ())

    def in_a_row(self, steps: Sequence[Sequence[Any]]) -> list[list[Tensor]]:
        """The outputs of predictions in a row, each on inputs of its own. Raises ``Misfit`` and ``RunError``."""
        self.states = self._initial
        return [self._predicted(leaves) for leaves in steps]

    def _predicted(self, leaves: Sequence[Any]) -> list[Tensor]:
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        names = self._interface.inputs
        if len(tensors) != len(names):
            raise Misfit(f"the program takes {len(names)} inputs, the model {len(tensors)}")
        feed = {name: tensor for name, tensor in zip(names, tensors, strict=True) if name is not None}
        states = {**self.states, **{state: tensors[at] for state, at in self._of_inputs.items()}}
        try:
            outputs, after = self._process.predict(self._package, feed, states)
        except Hung as error:
            raise Unanswered(f"Core AI's interpreter {error}") from error
        except Died as error:
            self.stop = self.stop or error
            raise RunError(f"Core AI's interpreter {error}") from error
        except Failed as error:
            if str(error).startswith(_DOES_NOT_FIT):
                raise Misfit(str(error).partition(": ")[2]) from None
            self.stop = self.stop or error
            raise RunError(f"Core AI's interpreter raises {error}") from error
        self.states = {state: after[state] for state in self._initial}
        missing = [name for name in self.output_names if name not in outputs]
        if missing:
            raise RunError(f"the program gives no output {', '.join(missing)}")
        return [outputs[name] for name in self.output_names]


def program_of(process: ConverterProcess, converted: Converted, model: nn.Module) -> CoreAIProgram:
    """A converted package, with the states that the model has."""
    assert converted.interface is not None
    buffers = dict(model.named_buffers())
    written = [name for name in converted.interface.states.values() if not name.isdecimal() and name not in buffers]
    attributes: Mapping[str, Tensor] = {name: attrgetter(name)(model) for name in written}
    return CoreAIProgram(process, converted.package, converted.interface, buffers, attributes)
