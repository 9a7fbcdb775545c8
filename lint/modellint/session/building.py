"""Building of a target's model in the worker, in stages: plug-ins, inputs, import, construction, checkpoint."""

from __future__ import annotations

import random
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint import destinations
from modellint.live.inputs import input_spec as inputs
from modellint.session import target, target_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject
    from modellint.rule import Rule
    from modellint.session.requested_actions import Session

LARGEST = 2 * 1024**3
"""The most bytes of parameters that are given values for the sake of rules that look at them."""
_AT_ONCE = LARGEST // 4
"""Up to so many bytes a model is built without asking first, on the meta device, how large it is."""


class Built(NamedTuple):
    """A built model, and its example inputs."""

    model: nn.Module
    inputs: Inputs | None
    has_values: bool


class Failed(Exception):
    """The user's code ended a stage; the cause is its exception."""


class Again(Exception):
    """Building on the CPU failed after an attempt on the meta device; whether it does by itself, a fresh process tells."""


def seed_generators(seed: int) -> None:
    """Let random numbers start anew: those of torch, Python, and numpy where it is imported."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


class Builder:
    """The builder of what one request names, stage by stage."""

    def __init__(
        self, session: Session, on_meta: bool, modules: dict[target.Location, ModuleType] | None = None
    ) -> None:
        self._session = session
        self._request = session.request
        self.on_meta = on_meta
        """Whether building may be tried on the meta device first."""
        self.modules = {} if modules is None else modules
        """Those of targets that are imported, so that several targets in a file have the same."""
        self.model: nn.Module | None = None
        """The model, once it is built."""

    @cached_property
    def specs(self) -> tuple[inputs.InputSpec, ...]:
        """What the inputs are to be made from."""
        return inputs.parse_all(self._request.inputs, self._request.input_folder or self._request.folder)

    @property
    def compared_specs(self) -> tuple[inputs.InputSpec, ...]:
        """What the inputs were made from, for a comparison; none where arguments are others, as they hold the ranges then."""
        return () if self._request.constants or self._request.random_inputs else self.specs

    def with_values(self, command: str) -> tuple[nn.Module, Inputs]:
        """The model as it is to be converted, and its inputs."""
        built = self.built_with_values(command)
        if built.inputs is None:
            raise self.without_inputs(built)
        return built.model, built.inputs

    def model_with_values(self, command: str) -> nn.Module:
        """The model as it is to be converted, where nobody asks for inputs."""
        return self.built_with_values(command).model

    def built_with_values(self, command: str) -> Built:
        """The model as it is to be converted, with the inputs that there are."""
        destination = destinations.named(self._request.destination.name)
        if not destination.is_installed:
            raise target.TargetError(f"{command} needs {destination.requirement}")
        checkpoint = self.checkpoint(values=True)
        built = self.built(True)
        if not built.has_values:
            raise target.TargetError(f"{self._request.target.text}: its parameters have no values")
        if checkpoint is not None:
            self._load(built.model, checkpoint)
        return built

    def without_inputs(self, built: Built) -> inputs.InputError:
        """The error for a model without inputs, with the ``--input`` to give."""
        from modellint.live.inputs.required_inputs import wanted

        return inputs.InputError(f"{self._request.target.text}: {wanted(built.model)}")

    def _load(self, model: nn.Module, checkpoint: Any) -> None:
        from modellint.live import checkpoint_file

        weights = checkpoint_file.weights(checkpoint, model.state_dict())
        try:
            model.load_state_dict(dict(weights))
        except Exception as error:
            raise target.TargetError(
                f"{self._request.checkpoint} does not fit: {target_failure.described(error)}"
            ) from None

    def rules(self) -> dict[str, Rule]:
        """The rules that are to be asked."""
        from modellint.run import all_rules

        request = self._request
        rules = all_rules(request.plugins)
        return {code: rule for code, rule in rules.items() if code in request.rules}

    def checkpoint(self, *, values: bool) -> Any:
        """What the checkpoint holds; None without one."""
        path = self._request.checkpoint
        if path is None:
            return None
        from modellint.live import checkpoint_file as checkpoint

        self._session.enter("loading the checkpoint of")
        try:
            return checkpoint.load(path, values=values)
        except BaseException as error:
            raise Failed from error

    def built(self, needs_values: bool, *, only_shapes: bool = False) -> Built:
        """The model, imported, built and given shapes; with ``only_shapes`` inputs that are too large get no values."""
        from torch import nn

        named = self._named()
        needs_values |= self._request.random_inputs
        self._session.enter("building")
        if isinstance(named, nn.Module):
            model, example = named, None
        else:
            try:
                model, example = self._made(named, needs_values and inputs.total(self.specs) <= LARGEST)
            except (target.TargetError, Again):
                raise
            except BaseException as error:
                raise Failed from error
        self.model = model
        devices = {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}
        on_meta = "meta" in devices
        # Inputs of any size have a shape.
        without_values = on_meta or (only_shapes and inputs.total(self.specs) > LARGEST)
        given_inputs = self._inputs(example, "meta" if without_values else next(iter(sorted(devices)), "cpu"))
        self._give_shapes(model, given_inputs)
        if self._request.constants:
            model, given_inputs = self._with_constants(model, given_inputs)
        if self._request.random_inputs:
            model, given_inputs = self._with_random_inputs(model, given_inputs, without_values)
        return Built(model, given_inputs, not on_meta)

    def _with_constants(self, model: nn.Module, given: Inputs | None) -> tuple[nn.Module, Inputs]:
        from modellint.live.inputs.constant_arguments import ranged, with_constants

        if given is None:
            raise inputs.InputError(f"--constant: {self._request.target.text} has no inputs: give them, with --input")
        try:
            return with_constants(model, ranged(given, self.specs), self._request.constants)
        except ValueError as error:
            raise inputs.InputError(f"{self._request.target.text}: --{error}") from None

    def _with_random_inputs(
        self, model: nn.Module, given: Inputs | None, without_values: bool
    ) -> tuple[nn.Module, Inputs]:
        from modellint.live.inputs.constant_arguments import ranged
        from modellint.live.inputs.random_numbers import NoRandomInputs, with_random_inputs
        from modellint.session.messages import Check

        text = self._request.target.text
        if given is None:
            raise inputs.InputError(f"--random-inputs: {text} has no inputs: give them, with --input")
        if without_values:
            raise inputs.InputError(f"--random-inputs: {text} has no values, and what it draws is not known")
        self._session.enter("running forward of")
        try:
            return with_random_inputs(model, given if self._request.constants else ranged(given, self.specs))
        except NoRandomInputs as error:
            if not isinstance(self._request.action, Check):
                raise inputs.InputError(f"{text}: --random-inputs: {error}") from None
            self._session.notes.append(f"--random-inputs: {error}")
        except Exception as error:
            # The run that follows tells what the model raises, and where.
            self._session.notes.append(f"--random-inputs: nothing is an input, as a run raises {type(error).__name__}")
            self._session.enter("building")
        return model, given

    def _named(self) -> Any:
        """What the target names, imported; of a collection the function that builds the model in question."""
        self._session.enter("importing")
        target.replace_texts(self._request.texts)
        wanted = self._request.target
        try:
            location = self._request.location
            if location not in self.modules:
                self.modules[location] = target.load(location)
            named = target.find(self.modules[location], wanted)
            return target.item(named, wanted) if wanted.item else named
        except target.TargetError:
            raise
        except BaseException as error:
            raise Failed from error

    def function(self) -> Callable[..., Any]:
        """The function that the target names. Raises ``TargetError`` for what is none."""
        from torch import nn

        named = self._named()
        if isinstance(named, (nn.Module, type)) or not callable(named):
            text = self._request.target.text
            raise target.TargetError(f"{text}: not a function that takes stages and returns tensors")
        function: Callable[..., Any] = named
        return function

    def inputs_alone(self) -> Inputs:
        """The inputs that are asked for, of whatever takes them."""
        return inputs.build(self.specs, self._request.seed)

    def collection(self) -> tuple[str, ...]:
        """The names of the models that the target yields; none for a target that is no collection."""
        wanted, named = self._request.target, self._named()
        if wanted.item or not target.is_collection(named):
            return ()
        self._session.enter("listing")
        try:
            return tuple(name for name, _ in target.pairs(named, wanted))
        except target.TargetError:
            raise
        except BaseException as error:
            raise Failed from error

    def _give_shapes(self, model: nn.Module, inputs: Inputs | None) -> None:
        """Call a model once whose lazy modules wait for that. Raises ``lazy.Unshaped`` where that is not possible."""
        from modellint.live.inputs import lazy_parameters

        if not lazy_parameters.is_unshaped(model):
            return
        if inputs is None:
            raise lazy_parameters.Unshaped(f"left {lazy_parameters.unshaped_text(model)}", lazy_parameters.ADVICE)
        self._session.enter("running forward of")
        try:
            lazy_parameters.shape(model, inputs)
        except BaseException as error:
            if self.on_meta:
                # Only a run on real tensors tells whose fault it is.
                raise Again from error
            raise Failed from error
        if lazy_parameters.is_unshaped(model):
            raise lazy_parameters.Unshaped(f"left {lazy_parameters.unshaped_text(model)}", lazy_parameters.UNREACHED)

    def _inputs(self, example: Any, device: str) -> Inputs | None:
        from modellint.live.inputs.declared_inputs import inputs_of

        seed_generators(self._request.seed)
        if self.specs:
            return inputs.build(self.specs, self._request.seed, device)
        if example is None:
            return None
        wrapped = inputs_of(example)
        if device != "meta":
            return wrapped
        args, kwargs = inputs.moved((wrapped.args, wrapped.kwargs), device)
        return wrapped._replace(args=args, kwargs=kwargs)

    def _made(self, named: Any, needs_values: bool) -> tuple[nn.Module, Any]:
        """Call a class or function: on the CPU where values are wanted and fit, else on the meta device where that works."""
        import torch

        from modellint.session.resources.allocation_budget import Budget, OverBudget

        trouble = None
        if self.on_meta and needs_values:
            try:
                with Budget(_AT_ONCE):
                    return self._called(named)
            except OverBudget:
                seed_generators(self._request.seed)
        if self.on_meta:
            try:
                with torch.device("meta"):
                    first = self._called(named)
            except Exception as error:
                trouble = target_failure.described(error)
            else:
                if not needs_values:
                    return first
                size = _size(self._session.subject(first[0], None, False))
                if size > LARGEST:
                    self._session.notes.append(
                        f"{self._request.target.text}: the parameters take {size / 1e9:.1f} GB; "
                        "they stay on the meta device, and what depends on their values is not checked"
                    )
                    return first
        seed_generators(self._request.seed)
        try:
            return self._called(named)
        except Exception as error:
            # Some code cannot run twice in one process: only a fresh one tells.
            if self.on_meta and target_failure.described(error) != trouble:
                raise Again from error
            raise

    def _called(self, named: Any) -> tuple[nn.Module, Any]:
        model, example = target.pair(self._request.target, named())
        # Of a class nobody else could set the mode; what a function returns is in the mode that it wants.
        return (model.eval() if isinstance(named, type) else model), example


def _size(subject: Subject) -> int:
    """The bytes of all parameters and buffers, also of modules that PyTorch does not know of; plain tensors do not count."""
    from torch import nn
    from torch.nn.parameter import is_lazy

    from modellint.live.unregistered_state import unregistered_state

    tensors = {id(state.tensor): state.tensor for state in subject.state}
    for hidden in unregistered_state(subject):
        if isinstance(hidden.value, nn.Module):
            tensors |= {id(tensor): tensor for tensor in (*hidden.value.parameters(), *hidden.value.buffers())}
        elif hidden.kind == "parameter":
            tensors[id(hidden.value)] = hidden.value
    # A lazy module's have no size before the first call.
    sized = (tensor for tensor in tensors.values() if not is_lazy(tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in sized)
