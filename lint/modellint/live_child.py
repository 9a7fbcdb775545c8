"""The worker's side of a live check: builds one target, asks the rules about it, and sends what they say."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.diagnostic import Diagnostic
from modellint.export_options import OptionError
from modellint.live import failed, inputs, place, processes, target, wire

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.capture import Failure
    from modellint.live.executed import Executed
    from modellint.live.subject import Inputs, Subject
    from modellint.rule import Rule

LARGEST = 2 * 1024**3
"""The most bytes of parameters that are given values for the sake of rules that look at them."""
_SHARE = 0.95
"""How much of the time-out a verification plans with; the rest goes to the start and the end of the process."""
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


def main() -> None:
    """Read a request from standard input, serve it, and end the process whatever the user's code has left running."""
    leave = os._exit
    request = json.loads(sys.stdin.buffer.read())
    channel = Channel(request["results"])
    _settle(request)
    try:
        answer = Work(request, channel).answer()
    except BaseException as error:
        answer = {"internal": f"{failed.described(error)} ({_place_of(error)})"}
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    channel.send(answer)
    leave(0)


def _place_of(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _settle(request: Mapping[str, Any]) -> None:
    """Make the process harmless: no standard input, an end when the parent ends, a place in crashes."""
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    processes.die_with_parent(request["parent"])
    processes.volunteer_for_the_oom_killer()
    faulthandler.enable(file=request["trace"])
    if sys.platform != "win32":
        faulthandler.register(signal.SIGUSR2, file=request["trace"])


class Work:
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

    def answer(self) -> dict[str, Any]:
        """What to tell the parent: ``usage`` for a wrong request, or ``diagnostics`` and what they rest on."""
        gc.disable()
        try:
            import torch  # noqa: F401
        except BaseException as error:
            return {"usage": f"PyTorch cannot be imported: {failed.described(error)}"}
        finally:
            gc.enable()
        # What PyTorch has made so far is no garbage, and is too much to be gone through again and again.
        gc.freeze()
        if self._request["memory"] is not None:
            processes.limit_data(self._request["memory"])
        if self._location.file is not None:
            place.remember(str(self._location.file))
        try:
            if self._request["verify"]:
                return self._verified()
            if self._request["export"] is not None:
                return self._exported()
            return self._shaped() if self._request["shapes"] else self._checked()
        except (target.TargetError, inputs.InputError, OptionError) as error:
            return {"usage": str(error)}
        except Again:
            return {"again": True}
        except Failed as error:
            return self._answer([self._cannot_run(error.__cause__ or error)], failed=True)

    def _checked(self) -> dict[str, Any]:
        from modellint.coreml import verdict
        from modellint.live.check import examine, needs_of
        from modellint.live.executed import Executed
        from modellint.live.undecided import undecided

        rules = self._rules()
        checkpoint = self._checkpoint()
        with Executed(self._project) as executed:
            # What cannot be built on a real device cannot be exported, whatever rules look at.
            built = self._build(bool({"values", "conversion"} & needs_of(rules)) or "LNT003" in rules)
            subject = self._subject(built, checkpoint)
            found = self._run(subject, rules)
        self._enter("checking")
        seen = examine(subject, rules)
        answer = self._answer(
            [*found, *self._with_twins(subject, seen.diagnostics, rules)],
            self._rows(executed, subject),
            seen.asked,
            undecided=undecided(subject),
        )
        return answer | {
            "verdict": verdict.to_json(seen.verdicts, subject.destination.frontend) if seen.verdicts else None
        }

    def _shaped(self) -> dict[str, Any]:
        """The table of shapes, from a model without values unless its run asks for some."""
        from modellint.live import shapes
        from modellint.live.capture import capture

        rules = self._rules()
        for needs_values in (False, True):
            built = self._build(needs_values)
            if built.inputs is None:
                raise inputs.InputError(f"{self._target.text}: give its inputs, as in --input 1x3x224x224")
            subject = self._subject(built)
            self._enter("running forward of")
            run = subject.run = capture(subject, symbolic=True)
            if run.failure is None or run.failure.kind != "data" or built.has_values:
                break
        found = []
        if run.failure is not None and run.failure.kind == "shape":
            found = [finding for rule in rules.values() if hasattr(rule, "live") for finding in rule.live(subject)]
        elif run.failure is not None:
            found = [self._failed_run(run.failure)]
        return self._answer(found) | {"table": shapes.to_json(shapes.table_of(subject, run))}

    def _verified(self) -> dict[str, Any]:
        """The comparison of the converted model with the model, and the findings that it confirms."""
        model, given, specs = self._with_values("verify")
        from modellint.coreml import confirmed, verification
        from modellint.coreml.saved import verify_package
        from modellint.coreml.verify import verify
        from modellint.settings import Destination

        destination = Destination(*self._request["destination"])
        package = self._request["package"]
        options: dict[str, Any] = {
            "specs": specs,
            "seed": self._request["seed"],
            "with_layers": self._request["verify"] == "layers",
            # Converting and judging take time as well.
            "budget": 0.4 * self._request["timeout"],
            "limit": _SHARE * self._request["timeout"] - (time.monotonic() - self._began),
            "partly": lambda known: self._channel.send({"partial": verification.to_json(known)}),
        }
        self._enter("verifying")
        if package is None:
            found = verify(model, given, destination, self._project, progress=self._enter, **options)
        else:
            found = verify_package(model, given, package, self._project, **options)
        self._enter("checking")
        subject = self._subject(Built(model, given, True), execute=lambda _: found)
        rules = self._rules()
        diagnostics = confirmed.findings(subject, rules, found)
        if found.verdict == verification.UNDECIDED and not found.cases:
            diagnostics += self._run(subject, rules)
        return self._answer(diagnostics) | {"verification": verification.to_json(found)}

    def _exported(self) -> dict[str, Any]:
        """The package, as a file, and what the checks of the model as it is find."""
        model, given, specs = self._with_values("export")
        from modellint.coreml import exported, verdict
        from modellint.coreml.export import check, export
        from modellint.export_options import from_json
        from modellint.live.check import examine

        wanted = from_json(self._request["export"])
        self._enter("checking")
        check(model, given, wanted, self._request["seed"])
        rules = self._rules()
        subject = self._subject(Built(model, given, True))
        found = self._run(subject, rules)
        self._enter("checking")
        seen = examine(subject, rules)
        answer = self._answer([*found, *seen.diagnostics], asked=seen.asked)
        answer["verdict"] = verdict.to_json(seen.verdicts, subject.destination.frontend) if seen.verdicts else None
        failure = None if subject.run is None else subject.run.failure
        if failure is not None and failure.kind != "data":
            return answer
        made = Path(self._request["made"])
        result = export(
            model,
            given,
            subject.destination,
            self._project,
            wanted,
            made.parent,
            made.name,
            specs=specs,
            seed=self._request["seed"],
            progress=self._enter,
        )
        return answer | {"exported": exported.to_json(result)}

    def _with_values(self, command: str) -> tuple[nn.Module, Inputs, tuple[inputs.InputSpec, ...]]:
        """The model as it is to be converted, its inputs, and what these were made from."""
        if importlib.util.find_spec("coremltools") is None:
            raise target.TargetError(f"{command} needs coremltools: pip install 'modellint[coreml]'")
        checkpoint = self._checkpoint()
        built = self._build(True)
        if built.inputs is None:
            raise inputs.InputError(f"{self._target.text}: give its inputs, as in --input 1x3x224x224")
        if not built.has_values:
            raise target.TargetError(f"{self._target.text}: its parameters have no values")
        if checkpoint is not None:
            self._load(built.model, checkpoint)
        specs = inputs.parse_all(self._request["inputs"], Path(self._request["input_folder"]))
        return built.model, built.inputs, specs

    def _load(self, model: nn.Module, checkpoint: Any) -> None:
        from modellint.live import checkpoint as checkpoints

        weights = checkpoints.weights(checkpoint, model.state_dict())
        try:
            model.load_state_dict(dict(weights))
        except Exception as error:
            raise target.TargetError(f"{self._request['checkpoint']} does not fit: {failed.described(error)}") from None

    def _answer(
        self,
        findings: list[Diagnostic],
        executed: Mapping[str, Any] | None = None,
        asked: frozenset[str] = frozenset(),
        failed: bool = False,
        undecided: Mapping[str, frozenset[str]] | None = None,
    ) -> dict[str, Any]:
        return {
            "diagnostics": [wire.to_json(finding._replace(target=self._target.text)) for finding in findings],
            "executed": dict(executed or {}),
            "asked": sorted(asked),
            "failed": failed,
            "undecided": {name: sorted(given) for name, given in (undecided or {}).items()},
            "table": None,
            "verdict": None,
            "verification": None,
            "exported": None,
            "notes": self._notes,
        }

    def _with_twins(
        self, subject: Subject, found: Sequence[Diagnostic], rules: Mapping[str, Rule]
    ) -> Iterable[Diagnostic]:
        """The findings; those that a fixed copy of the model is rid of have a fix."""
        if not self._request["twins"] or subject.inputs is None or not subject.has_values:
            return found
        from modellint.live.fix import fixed_copy
        from modellint.twins import with_twins

        self._enter("fixing")
        try:
            fixed = fixed_copy(subject.model, subject.inputs, subject.destination, self._project)
        except Exception:
            # What cannot even be copied is reported as it is.
            return found
        return with_twins(found, fixed.applied, rules)

    def _rules(self) -> dict[str, Rule]:
        from modellint.run import all_rules, load_plugins

        rules = all_rules(load_plugins(self._request["plugins"], Path(self._request["plugin_base"])))
        wanted = set(self._request["rules"])
        return {code: rule for code, rule in rules.items() if code in wanted}

    def _subject(self, built: Built, checkpoint: Any = None, execute: Any = None) -> Subject:
        from modellint.coreml.judge import execute as convert_and_execute
        from modellint.coreml.judge import judge
        from modellint.live.subject import Subject
        from modellint.settings import Destination

        return Subject(
            built.model,
            built.inputs,
            self._project.root,
            Destination(*self._request["destination"]),
            has_values=built.has_values,
            checkpoint=checkpoint,
            judge=judge,
            execute=execute or convert_and_execute,
        )

    def _checkpoint(self) -> Any:
        path = self._request["checkpoint"]
        if path is None:
            return None
        from modellint.live import checkpoint

        self._enter("loading the checkpoint of")
        try:
            return checkpoint.load(Path(path), values=bool(self._request["verify"] or self._request["export"]))
        except BaseException as error:
            raise Failed from error

    def _build(self, needs_values: bool) -> Built:
        from torch import nn

        self._enter("importing")
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
        return Built(model, given, not on_meta)

    def _inputs(self, specs: tuple[inputs.InputSpec, ...], example: Any, device: str) -> Inputs | None:
        from modellint.live.subject import Inputs

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

        from modellint.live.budget import Budget, OverBudget

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

    def _run(self, subject: Subject, rules: Mapping[str, Rule]) -> list[Diagnostic]:
        """Run the model where that is of use; LNT003 where it fails for another reason than its shapes."""
        from modellint.live.check import needs_of

        if subject.inputs is None or not ({"run", "conversion"} & needs_of(rules) or "LNT003" in rules):
            return []
        self._enter("running forward of")
        run = subject.run
        if run is None or run.failure is None:
            return []
        failure = run.failure
        if failure.kind == "shape" and "SHP008" in rules:
            return []
        if failure.kind == "data" and not subject.has_values:
            what = _raised(failure)
            self._notes.append(f"{self._target.text}: not run, as it {what}; its parameters have no values")
            return []
        return [self._failed_run(failure)]

    def _failed_run(self, failure: Failure) -> Diagnostic:
        return self._lnt003(_raised(failure), failure.frames, failure.place)

    def _cannot_run(self, error: BaseException) -> Diagnostic:
        frames = failed.user_frames(error, self._project)
        return self._lnt003(f"raised {failed.described(error)}", frames, None, advice=self._advice(error, frames))

    def _lnt003(
        self, what: str, frames: tuple[failed.Frame, ...], at: place.Place | None, advice: tuple[str, ...] = ()
    ) -> Diagnostic:
        file = self._location.file
        otherwise = at or (None if file is None else failed.definition(str(file), self._target.name))
        return failed.cannot_run(
            self._target.text, self._stage, what, frames, folder=self._folder, otherwise=otherwise, advice=advice
        )

    def _advice(self, error: BaseException, frames: tuple[failed.Frame, ...]) -> tuple[str, ...]:
        name = self._target.name.split(".")[-1]
        if isinstance(error, TypeError) and not frames and self._stage == "building" and "argument" in str(error):
            return (f"write a function without arguments that returns `{name}(...)`, and name that as the target",)
        return ()

    def _rows(self, executed: Executed, subject: Subject) -> dict[str, list[tuple[int, int]]]:
        hidden = [part for held in subject.hidden if held.kind == "module" for part in held.value.modules()]  # type: ignore[union-attr]
        return executed.rows([*(entry.module for entry in subject.modules), *hidden])


def _raised(failure: Failure) -> str:
    return f"raised {failure.error}" + (f": {' '.join(failure.message.split())}" if failure.message else "")


def _size(subject: Subject) -> int:
    """The bytes of all parameters and buffers, also of modules that PyTorch does not know of; plain tensors do not count."""
    from torch import nn

    tensors = {id(one.tensor): one.tensor for one in subject.state}
    for held in subject.hidden:
        if isinstance(held.value, nn.Module):
            tensors |= {id(one): one for one in (*held.value.parameters(), *held.value.buffers())}
        elif held.kind == "parameter":
            tensors[id(held.value)] = held.value
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


if __name__ == "__main__":
    main()
