"""Worker of Core AI: the process that imports coreai-torch, converts and runs; asked by lines of JSON on standard input."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from modellint.destinations.coreai.worker.captured_program import converted, copied, loaded, save
from modellint.destinations.coreai.worker.refusals import described, missing_from, refusals_of, refused_outputs, words
from modellint.destinations.coreai.worker.supply import Supply

_KEPT = 2
"""How many of the programs that were converted are kept, with their weights: a model as it is, and as an export supplies it."""


def main() -> None:
    """Serve requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_WRONLY)
    # The converter prints, and the runtime writes to the descriptors themselves.
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    warnings.simplefilter("ignore")
    worker = _Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            # Exceptions of the converter have no type in common.
            answer = {"error": type(error).__name__, "message": words(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    answers.close()
    # Threads of the runtime may go on.
    os._exit(0)


class _Worker:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._function: Any = None
        self._opened: Any = None
        self._exported: dict[str, Any] = {}
        """The programs that were converted last, decomposed, by their packages."""
        self._saved: dict[str, Any] = {}
        """The saved program of which parts were asked for last, decomposed."""

    def prepare(
        self,
        program: str,
        package: str,
        names: list[str],
        libraries: list[str],
        supplies: bool,
        ahead: str,
        ahead_names: list[str],
    ) -> dict[str, Any]:
        """Decompose and convert; where that is refused, go on past each failure for the others.

        ``supplies``: with decompositions of our own for what is missing, refused or wrong. ``ahead`` is the package of one more
        conversion with those, before, if there is to be one, and ``ahead_names`` are its outputs'; where none of them takes part, it is
        the conversion without.
        """
        _import(libraries)
        captured = loaded(program)
        if ahead:
            supply = Supply(True, captured)
            try:
                first = self._prepared(supply, ahead, ahead_names)
            except Exception:
                # Of ours, that is: it is for the export to say.
                return {**self._prepared(Supply(False, captured), package, names), "ahead": None, "is_ahead": False}
            if first["interface"] is not None and supply.is_plain:
                Path(ahead).rename(package)
                self._exported[package] = self._exported.pop(ahead)
                return {**first, "ahead": None, "is_ahead": True}
            plain = supply.refused or self._prepared(Supply(False, captured, supply.plain), package, names)
            return {**plain, "ahead": first, "is_ahead": True}
        return self._prepared(Supply(supplies, captured), package, names)

    def _prepared(self, supply: Supply, package: str, names: list[str]) -> dict[str, Any]:
        began = time.perf_counter()
        while True:
            exported = supply.decomposed()
            if unfit := refused_outputs(exported):
                return _prepared(unfit, None, False, began)
            try:
                converted(exported, names).save_asset(Path(package))
            except Exception as error:
                refusals, complete = refusals_of(exported, error)
                if [refusal["node"] for refusal in refusals] == [None]:
                    refusals = self._placed(exported, refusals[0], package)
                refused = _prepared(refusals, None, complete, began, supply)
                if supply.is_plain:
                    supply.refused = refused
                if supply.answers(exported, refusals):
                    continue
                return refused
            self._exported[package] = exported
            for older in list(self._exported)[:-_KEPT]:
                del self._exported[older]
            return _prepared([], _interface(exported, names), True, began, supply)

    def _placed(self, exported: Any, refusal: dict[str, Any], package: str) -> list[dict[str, Any]]:
        """A refusal of the whole program, at the first node with which it is refused, and its like."""
        from modellint.destinations.coreai.intermediate_values import first_failing, of_one_kind, with_outputs

        def convert(nodes: Any) -> None:
            with with_outputs(exported, nodes, True):
                part = copied(exported)
            converted(part, []).save_asset(Path(package.replace(".", "-part.", 1)))

        node = first_failing(exported, convert)
        return (
            [refusal]
            if node is None
            else [{**refusal, "node": described(each)} for each in of_one_kind(exported, node)]
        )

    def departure(self, of: str, inputs: str, package: str) -> dict[str, Any]:
        """The first node of the program of a package whose value is not PyTorch's; ``package`` is written for that."""
        import torch

        from modellint.destinations.coreai.intermediate_values import first_departure

        exported, given = self._exported[of], torch.load(inputs, weights_only=True)
        run = partial(self._values, exported, package, count(1), given["inputs"])
        departed = first_departure(exported, run, given["inputs"], given["nudged"])
        if departed is None:
            return {"node": None}
        return {"node": described(departed.node), "off": departed.error, "shape": list(departed.shape)}

    def failing_nodes(self, of: str, inputs: str, package: str) -> dict[str, Any]:
        """The first node of the program of a package that the runtime cannot run, and its like; ``package`` is written."""
        import torch

        from modellint.destinations.coreai.intermediate_values import first_failing, of_one_kind

        exported = self._exported[of]
        run = partial(self._values, exported, package, count(1), torch.load(inputs, weights_only=True))
        node = first_failing(exported, lambda nodes: run(nodes, True))
        return {"nodes": [] if node is None else [described(each) for each in of_one_kind(exported, node)]}

    def parts(self, program: str, libraries: list[str], supplies: bool, last: int | None) -> dict[str, Any]:
        """How many nodes a saved program has, decomposed, that compute something, and the ``last`` of its first with its like."""
        from modellint.destinations.coreai.intermediate_values import computed, made, of_one_kind

        exported = self._decomposed(program, libraries, supplies)
        nodes = computed(exported)
        found = [] if last is None else of_one_kind(exported, made(nodes[last - 1]))
        return {"count": len(nodes), "nodes": list(map(described, found))}

    def part(
        self, program: str, libraries: list[str], supplies: bool, first: int, inputs: str | None, package: str
    ) -> dict[str, Any]:
        """Convert so many of the first nodes of a saved program, and run them on ``inputs``: it may end the process."""
        import torch

        from modellint.destinations.coreai.intermediate_values import computed, ends_of, with_outputs

        exported = self._decomposed(program, libraries, supplies)
        ends = ends_of(computed(exported)[:first])
        if inputs is not None:
            self._values(exported, package, count(1), torch.load(inputs, weights_only=True), ends, True)
            return {}
        with with_outputs(exported, ends, True):
            part = copied(exported)
        converted(part, []).save_asset(Path(package))
        return {}

    def _decomposed(self, program: str, libraries: list[str], supplies: bool) -> Any:
        """A saved program as it is converted, as far as that is known without a conversion."""
        known = f"{program}.{'supplied' if supplies else 'plain'}.pt2"
        if known not in self._saved:
            _import(libraries)
            # Of a file, as the process that asked for parts before may have ended, and numbers what it decomposed otherwise.
            if not Path(known).exists():
                supply = Supply(supplies, loaded(program))
                exported = supply.decomposed()
                while supply.answers(exported, missing_from(exported)):
                    exported = supply.decomposed()
                save(exported, known)
            exported = loaded(known)
            self._saved = {known: exported}
        return self._saved[known]

    def _values(
        self, exported: Any, package: str, numbers: Iterator[int], given: Any, nodes: Any, alone: bool
    ) -> dict[str, Any]:
        """The runtime's values of nodes of a decomposed program, by name, beside its outputs or ``alone``."""
        from modellint.destinations.coreai.intermediate_values import with_outputs

        place = package.replace(".", f"-{next(numbers)}.", 1)
        with with_outputs(exported, nodes, alone):
            part = copied(exported)
        converted(part, []).save_asset(Path(place))
        interface = _interface(part, [])
        self.open(place)
        buffers = {**exported.state_dict, **exported.constants}
        taken = zip(interface["inputs"], given, strict=True)
        states = {name: given[int(of)] if of.isdecimal() else buffers[of] for name, of in interface["states"].items()}
        return self._outputs({name: value for name, value in taken if name is not None}, states)[0]

    def copy(self, package: str, to: str) -> dict[str, Any]:
        """Have a package of a program that was converted elsewhere too."""
        import shutil

        copied = shutil.copytree if Path(package).is_dir() else shutil.copyfile
        copied(package, to)
        self._exported[to] = self._exported[package]
        return {}

    def describe(self, package: str, texts: dict[str, str]) -> dict[str, Any]:
        """Write into a package who made it, its licence and what it does."""
        from coreai.authoring.asset import AIModelAsset

        def write(metadata: Any) -> None:
            for name, text in texts.items():
                setattr(metadata, name, text)

        AIModelAsset.load(Path(package)).update_metadata(write)
        return {}

    def features(self) -> dict[str, Any]:
        """Types and shapes of what the package takes and gives that is loaded."""
        description = self._function.desc

        def of(names: Any, descriptor: Any) -> dict[str, Any]:
            return {name: [str(descriptor(name).dtype), list(map(int, descriptor(name).shape))] for name in names}

        return {
            "inputs": of(description.input_names, description.input_descriptor),
            "outputs": of(description.output_names, description.output_descriptor),
            "states": of(description.state_names, description.state_descriptor),
        }

    def open(self, package: str) -> dict[str, Any]:
        """Load a package into the runtime."""
        from coreai.authoring.asset import AIModelAsset

        if self._opened is not None:
            self._loop.run_until_complete(self._opened.__aexit__(None, None, None))
            self._opened = None
        opened = AIModelAsset.load(Path(package)).executable()
        model = self._loop.run_until_complete(opened.__aenter__())
        self._opened = opened
        self._function = model.load_function("main")
        return {}

    def predict(self, inputs: str, outputs: str) -> dict[str, Any]:
        """Run the package that is loaded."""
        import torch

        feed = torch.load(inputs, weights_only=True)
        found, states = self._outputs(feed["inputs"], feed["states"])
        torch.save({"outputs": found, "states": states}, outputs)
        return {}

    def _outputs(self, inputs: Any, before: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The outputs of the package that is loaded, and its states afterwards."""
        from coreai.runtime import NDArray

        description = self._function.desc
        arrays = {
            name: NDArray(_array(tensor, description.input_descriptor(name).dtype, name))
            for name, tensor in inputs.items()
        }
        states = {
            name: NDArray(_array(tensor, description.state_descriptor(name).dtype, name))
            for name, tensor in before.items()
        }
        results = self._loop.run_until_complete(self._function(arrays, states))
        return (
            {name: _tensor(value.numpy()) for name, value in results.items()},
            {name: _tensor(value.numpy()) for name, value in states.items()},
        )


def _import(libraries: list[str]) -> None:
    """Import libraries for the operators that they register."""
    for library in libraries:
        with contextlib.suppress(Exception):
            __import__(library)


def _prepared(
    refusals: list[dict[str, Any]], interface: Any, complete: bool, began: float, supply: Supply | None = None
) -> dict[str, Any]:
    return {
        "refusals": refusals,
        "interface": interface,
        "complete": complete,
        "seconds": time.perf_counter() - began,
        "supplied": [] if supply is None else supply.used(),
    }


def _array(tensor: Any, dtype: Any, name: str) -> Any:
    """A tensor as the type that the program declares; integers that it does not hold are an error."""
    import numpy as np
    import torch

    source = tensor.to(torch.float32).numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()
    array = np.ascontiguousarray(source.astype(dtype)).reshape(source.shape)
    if source.dtype.kind == "i" and not np.array_equal(array, source):
        raise OverflowError(f"{name} holds integers that {array.dtype} does not")
    return array


def _tensor(array: Any) -> Any:
    import numpy as np
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def _interface(exported: Any, names: list[str]) -> dict[str, Any]:
    """Inputs, outputs and states of a program, by its signature: what the runtime gives back has no order."""
    from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

    signature = exported.graph_signature
    outputs = [spec.arg.name for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    buffers = {spec.target: spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.BUFFER}
    inputs = [
        spec.arg.name
        for spec in signature.input_specs
        if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)
    ]
    states: dict[str, str] = {}
    for spec in signature.output_specs:
        if spec.kind is OutputKind.BUFFER_MUTATION:
            states[buffers[spec.target]] = spec.target
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            states[spec.target] = str(inputs.index(spec.target))
    return {
        "inputs": [None if name in states else name for name in inputs],
        "outputs": names or outputs,
        "states": states,
    }
