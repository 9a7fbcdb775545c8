"""Refusals: what coreai-torch says of a program that it does not convert, node by node."""

from __future__ import annotations

from typing import Any

_WORDS = 300
"""Letters of a message."""


def words(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:_WORDS]


def refused_outputs(exported: Any) -> list[dict[str, Any]]:
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


def refusals_of(exported: Any, error: Exception) -> tuple[list[dict[str, Any]], bool]:
    """All that is refused, and whether every node was looked at.

    Without the private names that this asks for there is what the public call says: all missing operators, or the first refusal.
    """
    import coreai_torch

    missing = _missing(exported, error, _converters())
    refusals = list(map(_as_missing, missing))
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
                        message = f"{type(problem).__name__}: {words(problem)}"
                        refusals.append({"kind": "refused", "message": message, "node": described(node)})
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
                    {"kind": "refused", "message": f"{type(problem).__name__}: {words(problem)}", "node": None}
                )
    if not refusals:
        kind = type(error).__name__
        refusals.append({"kind": "refused", "message": f"{kind}: {words(error)}", "node": None})
    return refusals, complete


def missing_from(exported: Any) -> list[dict[str, Any]]:
    """The refusals of the operators that have no converter, without a conversion; none where the private table is not as it was."""
    known = _converters()
    return [] if known is None else list(map(_as_missing, _missing(exported, None, known)))


def _as_missing(node: Any) -> dict[str, Any]:
    message = f"coreai-torch has no converter for {node.target}"
    return {"kind": "missing", "message": message, "node": described(node)}


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


def _missing(exported: Any, error: Exception | None, known: frozenset[str] | None) -> list[Any]:
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


def described(node: Any) -> dict[str, Any]:
    """A node by its name, its operator and the lines that it comes of."""
    from modellint.destinations.capture.torch_export import origin_of

    origin = origin_of(node)
    return {"name": node.name, "operator": origin.operator, "frames": origin.frames, "module": origin.module}
