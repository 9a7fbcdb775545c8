"""Changes of one place in a saved ML Program: another constant, axis, operand, operation, mask, index, mode, state."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_SWAPPED = {
    "sub": ("x", "y"),
    "real_div": ("x", "y"),
    "floor_div": ("x", "y"),
    "mod": ("x", "y"),
    "pow": ("x", "y"),
    "greater": ("x", "y"),
    "greater_equal": ("x", "y"),
    "less": ("x", "y"),
    "less_equal": ("x", "y"),
    "matmul": ("x", "y"),
    "select": ("a", "b"),
}
_OTHERS = {
    "add": ("sub", "mul", "maximum"),
    "sub": ("add",),
    "mul": ("add", "real_div"),
    "real_div": ("mul",),
    "floor_div": ("mod", "mul"),
    "mod": ("floor_div",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "greater": ("greater_equal", "less", "not_equal"),
    "greater_equal": ("greater", "less_equal"),
    "less": ("less_equal", "greater"),
    "less_equal": ("less", "greater_equal"),
    "equal": ("not_equal", "greater_equal", "less_equal"),
    "not_equal": ("equal", "greater", "less"),
    "logical_and": ("logical_or", "logical_xor"),
    "logical_or": ("logical_and", "logical_xor"),
    "logical_xor": ("logical_or",),
    "reduce_sum": ("reduce_mean", "reduce_max", "reduce_l1_norm"),
    "reduce_mean": ("reduce_sum", "reduce_max"),
    "reduce_max": ("reduce_min", "reduce_sum"),
    "reduce_min": ("reduce_max",),
    "reduce_argmax": ("reduce_argmin",),
    "reduce_argmin": ("reduce_argmax",),
    "reduce_l2_norm": ("reduce_l1_norm", "reduce_sum_square"),
    "floor": ("ceil", "round"),
    "ceil": ("floor", "round"),
    "round": ("floor", "ceil"),
    "relu": ("abs", "relu6", "softplus"),
    "tanh": ("softsign", "sigmoid", "erf"),
    "sigmoid": ("tanh", "softsign"),
    "exp": ("exp2",),
    "sin": ("cos", "tanh"),
    "cos": ("sin",),
    "abs": ("relu", "square"),
    "square": ("abs",),
    "sqrt": ("abs",),
    "sign": ("tanh",),
    "silu": ("relu",),
    "atan": ("tanh",),
    "max_pool": (),
}
_WORDS = {
    "update": ("add", "max"),
    "add": ("update", "sub"),
    "max": ("min",),
    "EXACT": ("TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"),
    "TANH_APPROXIMATION": ("EXACT",),
    "reflect": ("replicate",),
    "replicate": ("reflect",),
    "forward": ("reverse",),
    "reverse": ("forward",),
    "sigmoid": ("tanh",),
    "tanh": ("sigmoid",),
    "same": ("same_lower",),
    "STRICT_ALIGN_CORNERS": ("UNALIGN_CORNERS",),
    "UNALIGN_CORNERS": ("STRICT_ALIGN_CORNERS",),
}
_MASKS = {"begin_mask", "end_mask", "squeeze_mask"}
_PLACES = {"indices", "begin", "end", "perm", "shape", "split_sizes", "reps", "pad", "stride"}
_IGNORED = {"validate_indices", "batch_dims", "ceil_mode", "dtype", "interleave", "name", "val"}
_BLOB = 0xDEADBEEF


class Site(NamedTuple):
    """One possible change."""

    kind: str
    what: str
    apply: Callable[[], None]


def sites(spec: Any, weights: Path) -> Iterator[Site]:
    """All changes of a specification and of the file of its weights, in a fixed order."""
    function = spec.mlProgram.functions["main"]
    (block,) = function.block_specializations.values()
    kinds = {one.name: one.type.SerializeToString() for one in function.inputs}
    yield from _of_block(block, kinds, {}, weights)


def _of_block(block: Any, kinds: dict[str, bytes], made: dict[str, Any], weights: Path) -> Iterator[Site]:
    kinds, made = dict(kinds), dict(made)
    for one in block.inputs:
        kinds[one.name] = one.type.SerializeToString()
    for one in block.operations:
        for out in one.outputs:
            kinds[out.name] = out.type.SerializeToString()
            made[out.name] = one
    read: dict[str, list[tuple[Any, str]]] = {}
    for one in block.operations:
        for name, held in one.inputs.items():
            for argument in held.arguments:
                if argument.WhichOneof("binding") == "name":
                    read.setdefault(argument.name, []).append((one, name))
    for one in block.operations:
        if one.type == "const":
            yield from _of_constant(one, read, weights)
        else:
            yield from _of_operation(one, block, kinds, made)
        for inner in one.blocks:
            yield from _of_block(inner, kinds, made, weights)


def _of_constant(one: Any, read: dict[str, list[tuple[Any, str]]], weights: Path) -> Iterator[Site]:
    name = one.outputs[0].name
    readers = read.get(name, [])
    if not readers or any(use in _IGNORED for _, use in readers):
        return
    reader, use = readers[0]
    said = f"{reader.type} {reader.outputs[0].name if reader.outputs else ''} {use}"
    value = one.attributes["val"]
    if value.WhichOneof("value") == "blobFileValue":
        yield from _of_blob(value, said, weights)
        return
    tensor = value.immediateValue.tensor
    held = tensor.WhichOneof("value")
    if held is None:
        return
    values = getattr(tensor, held).values
    match held:
        case "ints":
            kind = {"axis": "axis", "axes": "axis"}.get(use, "index" if use in _PLACES else "integer")
            for by in (1, -1):
                yield Site(kind, f"{said}: {list(values)[:8]} by {by:+d} at 0", lambda v=values, b=by: _add(v, 0, b))
            if len(values) > 1:
                last = len(values) - 1
                yield Site(kind, f"{said}: {list(values)[:8]} by +1 at the end", lambda v=values, a=last: _add(v, a, 1))
                yield Site(kind, f"{said}: {list(values)[:8]} with two exchanged", lambda v=values: _exchange(v, 0, 1))
        case "floats":
            yield Site("number", f"{said}: {list(values)[:4]} times 1.01", lambda v=values: _scale(v, 1.01))
            yield Site("number", f"{said}: {list(values)[:4]} negated", lambda v=values: _scale(v, -1.0))
            yield Site("number", f"{said}: {list(values)[:4]} plus 0.1", lambda v=values: _add(v, 0, 0.1))
        case "bools":
            for at in range(min(len(values), 4)):
                kind = "slice mask" if use in _MASKS else "flag"
                yield Site(kind, f"{said}: {list(values)[:8]} flipped at {at}", lambda v=values, a=at: _flip(v, a))
        case "strings":
            for word in _WORDS.get(values[0], ()):
                yield Site("mode", f"{said}: {values[0]} to {word}", lambda v=values, w=word: _put(v, w))


def _of_blob(value: Any, said: str, weights: Path) -> Iterator[Site]:
    offset = value.blobFileValue.offset
    data = weights.read_bytes()
    mark, kind, size, begin = struct.unpack_from("<IIQQ", data, offset)
    if mark != _BLOB or kind not in (1, 2) or not size:
        return
    form, width = ("<e", 2) if kind == 1 else ("<f", 4)

    def change(at: int, by: Callable[[float], float]) -> None:
        held = bytearray(weights.read_bytes())
        (number,) = struct.unpack_from(form, held, begin + at * width)
        struct.pack_into(form, held, begin + at * width, by(number))
        weights.write_bytes(held)

    count = size // width
    yield Site("weight", f"{said}: one of {count} times 1.05", lambda: change(count // 2, lambda x: x * 1.05))
    yield Site("weight", f"{said}: one of {count} negated", lambda: change(count - 1, lambda x: -x))
    yield Site("weight", f"{said}: one of {count} plus 0.05", lambda: change(0, lambda x: x + 0.05))


def _of_operation(one: Any, block: Any, kinds: dict[str, bytes], made: dict[str, Any]) -> Iterator[Site]:
    out = one.outputs[0].name if one.outputs else ""
    said = f"{one.type} {out}"
    names = {name: held.arguments for name, held in one.inputs.items() if len(held.arguments) == 1}
    named = {name: held[0].name for name, held in names.items() if held[0].WhichOneof("binding") == "name"}
    if one.type in _SWAPPED:
        first, second = _SWAPPED[one.type]
        if named.get(first) in kinds and named.get(second) in kinds:
            yield Site("operands", f"{said}: {first} and {second} exchanged", lambda: _cross(one, first, second))
    for other in _OTHERS.get(one.type, ()):
        kind = (
            "comparison"
            if one.type in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
            else "operation"
        )
        yield Site(kind, f"{said}: {other}", lambda o=other: setattr(one, "type", o))
    if one.type == "concat" and len(one.inputs["values"].arguments) > 1:
        held = one.inputs["values"].arguments
        if held[0].name != held[1].name:
            yield Site("operands", f"{said}: the first two values exchanged", lambda: _exchange_names(held))
    if one.type == "write_state":
        yield Site("state", f"{said}: {named['data']} is not written to {named['input']}", lambda: _forget(one, block))
        for name, kind in kinds.items():
            if name != named["data"] and kind == kinds[named["data"]] and _comes_before(block, name, one, made):
                yield Site("state", f"{said}: {name} is written", lambda n=name: _rewire(one, "data", n))
                break
    before = [name for name in made if made[name] is one]
    for name in ("x", "data", "a", "y", "value"):
        if name in named and out and kinds.get(named[name]) == kinds[out]:
            kind = "cast" if one.type in ("round", "floor", "ceil") else "dropped"
            yield Site(
                kind, f"{said}: its {name}, {named[name]}, in its place", lambda n=named[name]: _drop(block, out, n)
            )
            break
    if one.type == "cast" and named.get("x") in made and made[named["x"]].type == "cast":
        source = made[named["x"]].inputs["x"].arguments[0].name
        if kinds.get(source) == kinds[out]:
            yield Site("cast", f"{said}: two casts left out", lambda: _drop(block, out, source))
    for name in named:
        if name in _IGNORED or named[name] not in kinds or made.get(named[name], one).type == "const":
            continue
        kind = kinds[named[name]]
        others = [
            other
            for other in kinds
            if kinds[other] == kind
            and other != named[name]
            and other not in before
            and _comes_before(block, other, one, made)
        ]
        if others:
            other = others[len(said) % len(others)]
            word = "mask" if one.type == "select" and name == "cond" else "index" if name == "indices" else "wiring"
            yield Site(
                word, f"{said}: {name} is {other} and not {named[name]}", lambda n=name, o=other: _rewire(one, n, o)
            )


def _comes_before(block: Any, name: str, one: Any, made: dict[str, Any]) -> bool:
    if name not in made:
        return True
    if made[name].type == "const":
        return False
    for other in block.operations:
        if other is one:
            return False
        if other is made[name]:
            return True
    return False


def _add(values: Any, at: int, by: float) -> None:
    values[at] = values[at] + by


def _scale(values: Any, by: float) -> None:
    for at in range(len(values)):
        values[at] = values[at] * by


def _exchange(values: Any, one: int, other: int) -> None:
    values[one], values[other] = values[other], values[one]


def _flip(values: Any, at: int) -> None:
    values[at] = not values[at]


def _put(values: Any, word: str) -> None:
    values[0] = word


def _cross(one: Any, first: str, second: str) -> None:
    a, b = one.inputs[first].arguments[0], one.inputs[second].arguments[0]
    a.name, b.name = b.name, a.name


def _exchange_names(held: Any) -> None:
    held[0].name, held[1].name = held[1].name, held[0].name


def _rewire(one: Any, name: str, other: str) -> None:
    one.inputs[name].arguments[0].name = other


def _forget(one: Any, block: Any) -> None:
    """Leave an operation out that has no outputs."""
    for at, other in enumerate(block.operations):
        if other == one:
            del block.operations[at]
            return


def _drop(block: Any, gone: str, kept: str) -> None:
    """Have all that reads a value read another; an output keeps its name by an identity."""
    is_output = gone in block.outputs
    for one in block.operations:
        if any(out.name == gone for out in one.outputs):
            if is_output:
                one.inputs.clear()
                one.type = "identity"
                one.inputs["x"].arguments.add().name = kept
            continue
        _rename(one, gone, kept)


def _rename(one: Any, gone: str, kept: str) -> None:
    for held in one.inputs.values():
        for argument in held.arguments:
            if argument.WhichOneof("binding") == "name" and argument.name == gone:
                argument.name = kept
    for inner in one.blocks:
        for other in inner.operations:
            _rename(other, gone, kept)
