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
from copy import deepcopy
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

_WORDS = 300
_FIELD_TYPES: dict[Any, Any] = {}
"""The types of the fields of classes that saved programs are made of."""
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
            answer = {"error": type(error).__name__, "message": _words(error)}
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
        for library in libraries:
            # For the operators that it registers.
            with contextlib.suppress(Exception):
                __import__(library)
        captured = _loaded(program)
        if ahead:
            supply = _Supply(True, captured)
            try:
                first = self._prepared(supply, ahead, ahead_names)
            except Exception:
                # Of ours, that is: it is for the export to say.
                return {**self._prepared(_Supply(False, captured), package, names), "ahead": None, "is_ahead": False}
            if first["interface"] is not None and supply.is_plain:
                Path(ahead).rename(package)
                self._exported[package] = self._exported.pop(ahead)
                return {**first, "ahead": None, "is_ahead": True}
            plain = supply.refused or self._prepared(_Supply(False, captured, supply.plain), package, names)
            return {**plain, "ahead": first, "is_ahead": True}
        return self._prepared(_Supply(supplies, captured), package, names)

    def _prepared(self, supply: _Supply, package: str, names: list[str]) -> dict[str, Any]:
        began = time.perf_counter()
        while True:
            exported = supply.decomposed()
            if unfit := _refused_outputs(exported):
                return _prepared(unfit, None, False, began)
            try:
                _converted(exported, names).save_asset(Path(package))
            except Exception as error:
                refusals, complete = _refusals(exported, error)
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
                copied = _copied(exported)
            _converted(copied, []).save_asset(Path(package.replace(".", "-part.", 1)))

        node = first_failing(exported, convert)
        return [refusal] if node is None else [{**refusal, "node": _node(each)} for each in of_one_kind(exported, node)]

    def departure(self, of: str, inputs: str, package: str) -> dict[str, Any]:
        """The first node of the program of a package whose value is not PyTorch's; ``package`` is written for that."""
        import torch

        from modellint.destinations.coreai.intermediate_values import first_departure

        exported, given = self._exported[of], torch.load(inputs, weights_only=True)
        run = partial(self._values, exported, package, count(1), given["inputs"])
        departed = first_departure(exported, run, given["inputs"], given["nudged"])
        if departed is None:
            return {"node": None}
        return {"node": _node(departed.node), "off": departed.error, "shape": list(departed.shape)}

    def that_fail(self, of: str, inputs: str, package: str) -> dict[str, Any]:
        """The first node of the program of a package that the runtime cannot run, and its like; ``package`` is written."""
        import torch

        from modellint.destinations.coreai.intermediate_values import first_failing, of_one_kind

        exported = self._exported[of]
        run = partial(self._values, exported, package, count(1), torch.load(inputs, weights_only=True))
        node = first_failing(exported, lambda nodes: run(nodes, True))
        return {"nodes": [] if node is None else [_node(each) for each in of_one_kind(exported, node)]}

    def _values(
        self, exported: Any, package: str, numbers: Iterator[int], given: Any, nodes: Any, alone: bool
    ) -> dict[str, Any]:
        """The runtime's values of nodes of a decomposed program, by name, beside its outputs or ``alone``."""
        from modellint.destinations.coreai.intermediate_values import with_outputs

        place = package.replace(".", f"-{next(numbers)}.", 1)
        with with_outputs(exported, nodes, alone):
            copied = _copied(exported)
        _converted(copied, []).save_asset(Path(place))
        interface = _interface(copied, [])
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


def _loaded(file: str) -> Any:
    """A program that was saved. Its reader asks for the types of the same classes' fields again and again, most of its time."""
    import typing

    import torch

    slow = typing.get_type_hints

    def remembered(asked: Any, *args: Any, **kwargs: Any) -> Any:
        if asked not in _FIELD_TYPES:
            _FIELD_TYPES[asked] = slow(asked, *args, **kwargs)
        return _FIELD_TYPES[asked]

    typing.get_type_hints = remembered  # type: ignore[assignment]
    try:
        return torch.export.load(file)
    finally:
        typing.get_type_hints = slow


def _converted(exported: Any, names: list[str]) -> Any:
    """A decomposed program converted; raises what the converter does."""
    import coreai_torch

    converter = coreai_torch.TorchConverter(mode=coreai_torch.TorchConverter.Mode.RELEASE)
    converter.add_exported_program(exported, output_names=names or None)
    return converter.to_coreai()


def _copied(exported: Any) -> Any:
    """A program that may be converted: that takes out of it what leads to no output. Its weights are shared."""
    held = (*exported.state_dict.values(), *exported.constants.values())
    return deepcopy(exported, {id(each): each for each in held})


def _prepared(
    refusals: list[dict[str, Any]], interface: Any, complete: bool, began: float, supply: _Supply | None = None
) -> dict[str, Any]:
    return {
        "refusals": refusals,
        "interface": interface,
        "complete": complete,
        "seconds": time.perf_counter() - began,
        "supplied": [] if supply is None else supply.used(),
    }


class _Supply:
    """A captured program, the decompositions that it is given beside the converter's own, and which of them took part.

    Args:
        wanted: Whether it is given any.
        captured: The program.
        plain: It decomposed without them, if that is known.
    """

    def __init__(self, wanted: bool, captured: Any, plain: Any = None) -> None:
        self._wanted = wanted
        self._captured = captured
        self.plain = plain
        """The program decomposed without them, where that was seen on the way."""
        self.refused: dict[str, Any] | None = None
        """What the converter says of the program without them, where it refuses that, and it was seen on the way."""
        self._known: Any = None
        """Its values that depend on no input."""
        self._supplied: dict[Any, Any] = {}
        self._used: dict[str, list[str]] = {}
        self._is_left_out = False
        """Whether a use was not decomposed here of an operator that stays whole only while it is in no table."""

    @property
    def is_plain(self) -> bool:
        """Whether the program is the one that it would be without all this."""
        return not self._used and not self._is_left_out

    def decomposed(self) -> Any:
        """The program decomposed, without products that the converter falls over, or turns into others."""
        import coreai_torch

        from modellint.destinations.capture.decomposition_overhead import decomposed
        from modellint.destinations.coreai import merged_products
        from modellint.destinations.decompositions.table import BIT_EQUAL

        if not self._wanted and self.plain is not None:
            return self.plain
        exported = decomposed(self._captured, self._over(coreai_torch.get_decomp_table()))
        if self._wanted and merged_products.are_in(exported):
            if self.is_plain:
                self.plain = _copied(exported)
            for name in sorted(merged_products.part(exported)):
                self._used[name] = [name, BIT_EQUAL, "mended"]
        return exported

    def _over(self, table: Any) -> Any:
        """A table of decompositions with these in it."""
        if not self._wanted:
            return table
        from modellint.destinations.coreai.corrections import mends
        from modellint.destinations.coreai.supplied_decompositions import composites

        self._used.clear()
        self._is_left_out = False
        captured = {node.target for node in self._captured.graph.nodes if node.op == "call_function"}
        ours = {
            operator: self._noting(operator, "mended", table.get(operator), each)
            for operator, each in mends(captured).items()
            # In no table an operator that is made of others stays whole.
            if operator in table or not operator._can_decompose() or self._has_use_for(operator, each)
        }
        for operator, each in (*composites().items(), *self._supplied.items()):
            ours[operator] = self._noting(operator, "supplied", ours.get(operator) or table.get(operator), each)
        for operator, function in ours.items():
            table[operator] = function
        return table

    def _has_use_for(self, operator: Any, each: Any) -> bool:
        """Whether a decomposition takes a use of an operator, as the program was captured."""
        import torch
        from torch.fx.node import map_arg

        from modellint.destinations.capture.known_values import KnownValues

        self._known = self._known or KnownValues(self._captured)
        for node in self._captured.graph.find_nodes(op="call_function", target=operator):
            args, kwargs = map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
            mode = getattr(node.meta["val"], "fake_mode", None) or contextlib.nullcontext()
            try:
                if each.is_spared is not None and each.is_spared(node, self._known):
                    continue
                with mode, torch.no_grad():
                    if each.function(*args, **kwargs) is not NotImplemented:
                        return True
            except Exception:
                # It may do so while the program is decomposed.
                return True
        return False

    def _noting(self, operator: Any, kind: str, otherwise: Any, each: Any) -> Any:
        inside = False

        def decomposed(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            result = NotImplemented
            # A use of the operator in its own decomposition is one that the converter takes.
            if not inside:
                inside = True
                # Of sizes that vary, for one: what cannot be decomposed is left to the converter, and to the comparison.
                with contextlib.suppress(Exception):
                    result = each.function(*args, **kwargs)
                inside = False
            if result is NotImplemented:
                self._is_left_out |= otherwise is None and operator._can_decompose()
                return result if otherwise is None else otherwise(*args, **kwargs)
            name = f"{operator.namespace}::{str(operator).split('.')[1]}"
            self._used[name] = [name, each.exactness, kind]
            return result

        return decomposed

    def answers(self, exported: Any, refusals: list[dict[str, Any]]) -> bool:
        """Take in what is known for the operators that were refused; whether there is something new."""
        if not self._wanted:
            return False
        from modellint.destinations.coreai.supplied_decompositions import supplied

        names = {refusal["node"]["name"] for refusal in refusals if refusal["node"] is not None}
        found = {
            node.target: each
            for node in exported.graph.nodes
            if node.op == "call_function" and node.name in names and node.target not in self._supplied
            if (each := supplied(node.target)) is not None
        }
        self._supplied.update(found)
        return bool(found)

    def used(self) -> list[list[str]]:
        """Each with the operator, how exact it is, and whether it is ``supplied`` or ``mended``."""
        return list(self._used.values())


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:_WORDS]


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


def _refused_outputs(exported: Any) -> list[dict[str, Any]]:
    """Outputs that are no tensors: the converter fails at them without a word on which."""
    from torch.export.graph_signature import OutputKind, TensorArgument

    return [
        {
            "kind": "output",
            "message": f"output {at} is {getattr(spec.arg, 'value', spec.arg)!r}, and outputs have to be tensors",
            "node": None,
        }
        for at, spec in enumerate(
            spec for spec in exported.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT
        )
        if not isinstance(spec.arg, TensorArgument)
    ]


def _refusals(exported: Any, error: Exception) -> tuple[list[dict[str, Any]], bool]:
    """All that is refused, and whether every node was looked at.

    Without the private names that this asks for there is what the public call says: all missing operators, or the first refusal.
    """
    import coreai_torch

    refusals: list[dict[str, Any]] = []
    known = _converters()
    missing = _missing(exported, error, known)
    for node in missing:
        name = str(node.target)
        refusals.append(
            {"kind": "missing", "message": f"coreai-torch has no converter for {name}", "node": _node(node)}
        )
    lost = {node.name for node in missing}
    base: Any = coreai_torch.TorchConverter
    complete = False
    if hasattr(base, "_handle_call_function_op") and hasattr(base, "_constant_from_tensor"):

        class Tolerant(base):  # type: ignore[misc]
            """A converter that puts zeros in the place of what it refuses, and goes on."""

            def _handle_call_function_op(self, node: Any) -> None:
                try:
                    if node.name in lost:
                        raise LookupError
                    super()._handle_call_function_op(node)
                except Exception as problem:
                    if node.name not in lost:
                        message = f"{type(problem).__name__}: {_words(problem)}"
                        refusals.append({"kind": "refused", "message": message, "node": _node(node)})
                    _stand_in(self, node)

        converter = Tolerant(mode=base.Mode.RELEASE)
        try:
            for node in missing:
                converter.register_torch_lowering(
                    f"{node.target.namespace}::{str(node.target).partition('.')[2]}", allow_override=True
                )(lambda *_: None)
            converter.add_exported_program(exported)
            before = len(refusals)
            converter.to_coreai()
            complete = True
        except Exception as problem:
            if not refusals and len(refusals) == before:
                refusals.append(
                    {"kind": "refused", "message": f"{type(problem).__name__}: {_words(problem)}", "node": None}
                )
    if not refusals:
        kind = type(error).__name__
        refusals.append({"kind": "refused", "message": f"{kind}: {_words(error)}", "node": None})
    return refusals, complete


def _stand_in(converter: Any, node: Any) -> None:
    """Zeros for what a node gives."""
    import torch

    value = node.meta["val"]
    parts = value if isinstance(value, (list, tuple)) else [value]
    for at, part in enumerate(parts):
        sizes = [int(size) for size in part.shape]
        key = node.name if len(parts) == 1 else f"{node.name}#{at}"
        with converter._location:
            converter._values_map[key] = converter._constant_from_tensor(torch.zeros(sizes, dtype=part.dtype))


def _converters() -> frozenset[str] | None:
    """The operators that have a converter; None where the private table is not as it was."""
    try:
        from coreai_torch._aten_to_core import _aten_to_core_resolver as table
        from coreai_torch._custom_to_core import _custom_to_core_resolver as others
    except ImportError:
        return None
    return frozenset((*table, *others))


def _missing(exported: Any, error: Exception, known: frozenset[str] | None) -> list[Any]:
    """The nodes without a converter: by the private table, or by the names in the words of the refusal."""
    import torch

    nodes = [
        node
        for node in exported.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    ]
    if known is None:
        words = str(error).replace(",", " ").split()
        return [node for node in nodes if str(node.target) in words]
    return [node for node in nodes if _is_missing(node.target, known)]


def _is_missing(target: Any, known: frozenset[str]) -> bool:
    name = str(target).partition(".")[2]
    # Assertions are taken out before.
    if target.namespace == "aten" and ("assert" in name or "constrain_range" in name):
        return False
    return name not in known and (target.namespace == "aten" or name.rpartition(".")[0] not in known)


def _node(node: Any) -> dict[str, Any]:
    from modellint.destinations.capture.torch_export import origin_of

    origin = origin_of(node)
    return {"name": node.name, "operator": origin.operator, "frames": origin.frames, "module": origin.module}
