"""The stages of a request in the worker up to a model that stands: what is read, imported, built and loaded."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint import destinations
from modellint.live.code import places as place
from modellint.live.inputs import example as inputs
from modellint.session import target
from modellint.session import target_failure as failed
from modellint.settings import Destination

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject
    from modellint.rule import Rule

LARGEST = 2 * 1024**3
"""The most bytes of parameters that are given values for the sake of rules that look at them."""
_AT_ONCE = LARGEST // 4
"""Up to so many bytes a model is built without asking first, on the meta device, how large it is."""


class Built(NamedTuple):
    """A model that stands, and what to call it with."""

    model: nn.Module
    inputs: Inputs | None
    has_values: bool


class Failed(Exception):
    """The user's code ended a stage; the cause is its exception."""


class Again(Exception):
    """Building on the CPU failed after an attempt on the meta device; whether it does by itself, a fresh process tells."""


class Channel:
    """The pipe to the parent: one JSON object a line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        # Bound now: the user's code may replace what other modules hold.
        self._encode = json.JSONEncoder().encode
        self._write = os.write
        self._exit = os._exit
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message. A process that the user's code forked and let come here ends instead."""
        if os.getpid() != self._process:
            self._exit(0)
        data = self._encode(message).encode("utf-8") + b"\n"
        while data:
            data = data[self._write(self._descriptor, data) :]


class Building:
    """One request on its way through the stages."""

    def __init__(self, request: Mapping[str, Any], channel: Channel) -> None:
        self._request = request
        self._channel = channel
        self._stage = "starting"
        self._target = target.Target(*request["target"])
        file, module, folders, is_script = request["location"]
        self._location = target.Location(None if file is None else Path(file), module, tuple(folders), is_script)
        self._project = place.Project(Path(request["root"]))
        self._folder = Path(request["folder"])
        self._notes: list[str] = []
        self._began = time.monotonic()

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._channel.send({"stage": stage})
        self._seed()

    def _seed(self) -> None:
        import torch

        seed = self._request["seed"]
        torch.manual_seed(seed)
        random.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    def _with_values(self, command: str) -> tuple[nn.Module, Inputs, tuple[inputs.InputSpec, ...]]:
        """The model as it is to be converted, its inputs, and what these were made from."""
        destination = destinations.named(Destination(*self._request["destination"]).name)
        if not destination.is_installed:
            raise target.TargetError(f"{command} needs {destination.requirement}")
        checkpoint = self._checkpoint()
        built = self._build(True)
        if built.inputs is None:
            raise self._without_inputs(built)
        if not built.has_values:
            raise target.TargetError(f"{self._target.text}: its parameters have no values")
        if checkpoint is not None:
            self._load(built.model, checkpoint)
        specs = inputs.parse_all(self._request["inputs"], Path(self._request["input_folder"]))
        return built.model, built.inputs, specs

    def _without_inputs(self, built: Built) -> inputs.InputError:
        from modellint.session.required_inputs import wanted

        return inputs.InputError(f"{self._target.text}: {wanted(built.model)}")

    def _load(self, model: nn.Module, checkpoint: Any) -> None:
        from modellint.live import checkpoint_file as checkpoints

        weights = checkpoints.weights(checkpoint, model.state_dict())
        try:
            model.load_state_dict(dict(weights))
        except Exception as error:
            raise target.TargetError(f"{self._request['checkpoint']} does not fit: {failed.described(error)}") from None

    def _rules(self) -> dict[str, Rule]:
        from modellint.run import all_rules, load_plugins

        rules = all_rules(load_plugins(self._request["plugins"], Path(self._request["plugin_base"])))
        wanted = set(self._request["rules"])
        return {code: rule for code, rule in rules.items() if code in wanted}

    def _subject(self, built: Built, checkpoint: Any = None) -> Subject:
        from modellint.live.subject import Subject
        from modellint.session.verdicts import execute, judge

        return Subject(
            built.model,
            built.inputs,
            self._project.root,
            Destination(*self._request["destination"]),
            has_values=built.has_values,
            checkpoint=checkpoint,
            judge=judge,
            execute=execute,
        )

    def _checkpoint(self) -> Any:
        path = self._request["checkpoint"]
        if path is None:
            return None
        from modellint.live import checkpoint_file as checkpoint

        self._enter("loading the checkpoint of")
        try:
            return checkpoint.load(Path(path), values=bool(self._request["verify"] or self._request["export"]))
        except BaseException as error:
            raise Failed from error

    def _build(self, needs_values: bool) -> Built:
        from torch import nn

        self._enter("importing")
        target.replace_texts(self._request["texts"])
        try:
            module = target.load(self._location)
        except target.TargetError:
            raise
        except BaseException as error:
            raise Failed from error
        named = target.find(module, self._target)
        self._enter("building")
        specs = inputs.parse_all(self._request["inputs"], Path(self._request["input_folder"]))
        if isinstance(named, nn.Module):
            model, example = named, None
        else:
            try:
                model, example = self._made(named, needs_values and inputs.total(specs) <= LARGEST)
            except (target.TargetError, Again):
                raise
            except BaseException as error:
                raise Failed from error
        devices = {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}
        on_meta = "meta" in devices
        # Inputs of any size have a shape.
        without_values = on_meta or (self._request["shapes"] and inputs.total(specs) > LARGEST)
        given = self._inputs(specs, example, "meta" if without_values else next(iter(sorted(devices)), "cpu"))
        self._give_shapes(model, given)
        return Built(model, given, not on_meta)

    def _give_shapes(self, model: nn.Module, given: Inputs | None) -> None:
        """Call a model once whose lazy modules wait for that. Raises ``lazy.Unshaped`` where that is not possible."""
        from modellint.live.inputs import lazy_parameters as lazy

        if not lazy.is_unshaped(model):
            return
        if given is None:
            raise lazy.Unshaped(f"left {lazy.told(model)}", lazy.ADVICE)
        self._enter("running forward of")
        try:
            lazy.shape(model, given)
        except BaseException as error:
            if self._request["on_meta"]:
                # Only a run on real tensors tells whose fault it is.
                raise Again from error
            raise Failed from error
        if lazy.is_unshaped(model):
            raise lazy.Unshaped(f"left {lazy.told(model)}", lazy.UNREACHED)

    def _inputs(self, specs: tuple[inputs.InputSpec, ...], example: Any, device: str) -> Inputs | None:
        from modellint.live.inputs.model_inputs import Inputs

        self._seed()
        if specs:
            return inputs.build(specs, self._request["seed"], device)
        if example is None:
            return None
        given = Inputs.of(example)
        return given if device != "meta" else Inputs(*inputs.moved((given.args, given.kwargs), device))

    def _made(self, named: Any, needs_values: bool) -> tuple[nn.Module, Any]:
        """Call a class or function: on the CPU where values are wanted and fit, else on the meta device where that works."""
        import torch

        from modellint.session.memory_limit import Budget, OverBudget

        trouble = None
        if self._request["on_meta"] and needs_values:
            try:
                with Budget(_AT_ONCE):
                    return self._called(named)
            except OverBudget:
                self._seed()
        if self._request["on_meta"]:
            try:
                with torch.device("meta"):
                    first = self._called(named)
            except Exception as error:
                trouble = failed.described(error)
            else:
                if not needs_values:
                    return first
                size = _size(self._subject(Built(first[0], None, False)))
                if size > LARGEST:
                    self._notes.append(
                        f"{self._target.text}: the parameters take {size / 1e9:.1f} GB; "
                        "they stay on the meta device, and what depends on their values is not checked"
                    )
                    return first
        self._seed()
        try:
            return self._called(named)
        except Exception as error:
            # Some code cannot run twice in one process: only a fresh one tells.
            if self._request["on_meta"] and failed.described(error) != trouble:
                raise Again from error
            raise

    def _called(self, named: Any) -> tuple[nn.Module, Any]:
        model, example = target.pair(self._target, named())
        # Of a class nobody else could set the mode; what a function returns is in the mode that it wants.
        return (model.eval() if isinstance(named, type) else model), example


def _size(subject: Subject) -> int:
    """The bytes of all parameters and buffers, also of modules that PyTorch does not know of; plain tensors do not count."""
    from torch import nn
    from torch.nn.parameter import is_lazy

    from modellint.live.unregistered_state import unregistered_state

    tensors = {id(one.tensor): one.tensor for one in subject.state}
    for held in unregistered_state(subject):
        if isinstance(held.value, nn.Module):
            tensors |= {id(one): one for one in (*held.value.parameters(), *held.value.buffers())}
        elif held.kind == "parameter":
            tensors[id(held.value)] = held.value
    # A lazy module's have no size before the first call.
    sized = (tensor for tensor in tensors.values() if not is_lazy(tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in sized)
