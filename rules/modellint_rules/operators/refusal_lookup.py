"""Whether coremltools refuses a use of PyTorch's API for its arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from modellint.authoring import Const, Tensor, Value, alternatives, coreml
from modellint_rules.operators.refusal_conditions import ABSENT, Literal, Refusal
from modellint_rules.operators.refusal_table import REFUSALS

if TYPE_CHECKING:
    from modellint_rules.operators.api_calls import Use


def refusal(use: Use, version: str | None, ios: int = 15) -> Refusal | None:
    """Why coremltools refuses a use for the iOS of a year, where it certainly does."""
    for one in _by_name().get(coreml.public_name(use.name), ()):
        lifted = (one.lifted is not None and coreml.is_at_least(version, one.lifted)) or (
            one.ios is not None and ios >= one.ios
        )
        if not lifted and _holds(one, use):
            return one._replace(kind=one.kind.format(rank=use.name[-2:-1]))
    return None


@cache
def words(version: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """Sets of words of each of which code holds one where it holds a use that is refused."""
    distinct = frozenset().union(*(_marked(one) for one in REFUSALS if one.distinct))
    others = [one for one in REFUSALS if not one.distinct]
    keywords = frozenset(literal.keyword for one in others for literal in one.literals)
    return distinct.union(*(_marked(one) for one in others)), distinct | keywords


def _marked(one: Refusal) -> Iterator[str]:
    """The words of a use; those that are functions of torch and methods of tensors as they are called."""
    functions = {name.rpartition(".")[2] for name in one.names if name.rpartition(".")[2].islower()}
    marks = ".~" if any(name.startswith("torch.Tensor.") for name in one.names) else "~"
    for word in one.words:
        yield from (mark + word for mark in marks) if word in functions else (word,)


@cache
def _by_name() -> dict[str, tuple[Refusal, ...]]:
    found: dict[str, tuple[Refusal, ...]] = {}
    for one in REFUSALS:
        for name in one.names:
            found[name] = (*found.get(name, ()), one)
    return found


def _holds(one: Refusal, use: Use) -> bool:
    arguments = use.arguments
    if arguments.spread or None in arguments.keywords or (one.of_input and not _hangs_on_input(use)):
        return False
    # A tensor's method has its tensor before the dot.
    shift = int(use.name.startswith("torch.Tensor."))
    for literal in one.literals:
        value = arguments.get(literal.at - shift, literal.keyword)
        if value is None:
            found = literal.default
        elif literal.form == "literal":
            found = _literal(value, use.node, literal, shift)
        else:
            found = _name(value) if literal.form == "name" else _tensor(value)
        if found is ABSENT or not literal.is_refused(found):
            return False
    return True


def _hangs_on_input(use: Use) -> bool:
    """Whether the tensor that is used is computed from what the caller of `forward` gives."""
    given = use.receiver or use.arguments.get(0, "A") or use.arguments.get(0, "input")
    parts = alternatives(given) if given is not None else ()
    return bool(parts) and all(isinstance(part, Tensor) and part.batch is not None for part in parts)


def _name(value: Value) -> object:
    """The name of torch's that an argument is."""
    return ABSENT if value.external_name is None else value.external_name


def _tensor(value: Value) -> object:
    """Something where an argument certainly is a tensor."""
    parts = alternatives(value)
    return True if all(isinstance(part, Tensor) and part.certain for part in parts) else ABSENT


def _literal(value: Value, call: ast.Call, literal: Literal, shift: int) -> object:
    """The value of an argument that the call itself spells out."""
    at = literal.at - shift
    nodes = (
        [call.args[at]] if at < len(call.args) else [one.value for one in call.keywords if one.arg == literal.keyword]
    )
    try:
        written = ast.literal_eval(nodes[0])
    except (ValueError, TypeError, IndexError):
        return ABSENT
    return written if not isinstance(value, Const) or value.value == written else ABSENT
