"""Exported programs as coremltools takes them: without inputs and outputs that it refuses."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from modellint.destinations.coreml.private.entry_points import ct, front_end_parts


class Notes(Protocol):
    """Receiver of refusals: all that coremltools would have stopped at."""

    target: Any
    """coremltools' target."""

    def note(self, kind: str, node: str | None, message: str, value: str | None = None) -> None:
        """Remember what coremltools would have stopped at."""


class Tidied:
    """An exported program without the inputs and outputs that coremltools refuses, which are noted."""

    def __init__(self, program: Any, front_end: Notes) -> None:
        self._program = program
        self._front_end = front_end
        self.values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
        self.inputs: list[str] = []
        self.replaced: list[tuple[str, Any]] = []
        signature = program.graph_signature
        self.graph_signature = type(signature)(
            input_specs=[spec for spec in signature.input_specs if self._takes(spec)],
            output_specs=[spec for spec in signature.output_specs if self._gives(spec)],
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def _takes(self, spec: Any) -> bool:
        if spec.kind.name in ("PARAMETER", "CONSTANT_TENSOR", "BUFFER"):
            return True
        name = spec.arg.name
        if spec.kind.name != "USER_INPUT":
            self._refuse(
                name,
                f"Only 4 types of inputs handled yet: user input, parameter, constant, buffer. But got {spec.kind}",
            )
            return False
        value = self.values.get(name)
        if not isinstance(value, torch.Tensor):
            self._refuse(
                name, f"Placeholder val must be a tensor or fake tensor, but got type {type(value)}, value {value}"
            )
            return False
        self.inputs.append(name)
        api = front_end_parts()
        if value.dim_order() != tuple(range(value.dim())):
            self._refuse(name, "Core ML does not have general support for non-contiguous dim order")
        else:
            symbols = api.exir._construct_symbol_name_to_ct_range_dim_dict(self._program)
            try:
                api.exir._construct_ct_tensor_type_from_torch(name, value, symbols)
            except Exception as error:
                self._refuse(name, f"{value.dtype} is unsupported" if isinstance(error, KeyError) else str(error))
            else:
                if value.dtype is torch.float16 and self._front_end.target < ct.target.iOS16:
                    self._front_end.note(
                        "argument", name, "To use fp16 input, please set minimum deployment target to iOS16+", name
                    )
                return True
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        self.replaced.append((name, ct.TensorType(name=name, shape=shape or [1], dtype=api.types.fp32)))
        return False

    def _refuse(self, name: str, message: str) -> None:
        self._front_end.note("argument", name, message, name)

    def _gives(self, spec: Any) -> bool:
        kind, front_end = spec.kind.name, self._front_end
        name = getattr(spec.arg, "name", None) or None
        if kind == "USER_INPUT_MUTATION":
            front_end.note(
                "argument",
                name,
                "Core ML cannot handle user input mutation, because Core ML distinguishes input (immutable) and state (mutable)",
                spec.target,
            )
            return False
        if kind == "BUFFER_MUTATION":
            if front_end.target >= ct.target.iOS18:
                return True
            front_end.note("target", name, "State model is supported only >= iOS18. [iOS18]", spec.target)
            return False
        if kind != "USER_OUTPUT":
            front_end.note(
                "argument",
                name,
                f"Only 2 types of outputs handled yet: user output, buffer mutation. But got {spec.kind}",
            )
            return False
        if not hasattr(spec.arg, "name") or type(spec.arg).__name__ == "ConstantArgument":
            value = getattr(spec.arg, "value", None)
            front_end.note("output", None, f"the model returns {value!r}, which is no tensor", name)
            return False
        return True
