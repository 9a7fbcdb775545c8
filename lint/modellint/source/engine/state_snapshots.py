"""The states of abstract values: kept before a reading that goes on from them for one question, and put back behind it."""

from __future__ import annotations

from collections.abc import Iterable

from modellint.source.engine.abstract_values import (
    Argument,
    Container,
    Function,
    Instance,
    Method,
    Partial,
    Union,
    Value,
)


class ValueStates:
    """What can change of some values, and of all that they hold, as it is now."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._kept: dict[int, tuple[Value, dict[str, object]]] = {}
        pending = list(values)
        while pending:
            value = pending.pop()
            match value:
                case Union():
                    pending.extend(value.values)
                case Method():
                    pending.append(value.receiver)
                case Partial():
                    pending += (value.function, *value.arguments, *value.keywords.values())
                case Container() | Instance() | Argument() | Function() if id(value) not in self._kept:
                    state = {name: getattr(value, name) for name in _slots(type(value))}
                    for name, part in state.items():
                        if isinstance(part, list):
                            state[name] = [*part]
                            pending += part
                        elif isinstance(part, set):
                            state[name] = {*part}
                        elif isinstance(part, Value):
                            pending.append(part)
                    if isinstance(value, Function) and value.closure is not None:
                        pending.extend(value.closure.values())
                    self._kept[id(value)] = value, state
                case _:
                    pass

    def restore(self) -> None:
        """Put everything back."""
        for value, state in self._kept.values():
            for name, part in state.items():
                setattr(value, name, part)


_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    if kind not in _SLOTS:
        _SLOTS[kind] = tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
    return _SLOTS[kind]
