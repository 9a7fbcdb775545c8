"""The arguments of a call, as abstract values."""

from __future__ import annotations

from typing import NamedTuple

from modellint.source.engine.abstract_values import Value


class Arguments(NamedTuple):
    """The evaluated arguments of one call; ``spread`` are those behind a star, whose number is not known."""

    positional: list[Value]
    spread: list[Value]
    keywords: dict[str | None, Value]

    def everything(self) -> list[Value]:
        """All of them, in no particular role."""
        return [*self.positional, *self.spread, *self.keywords.values()]

    def get(self, index: int, keyword: str | None = None) -> Value | None:
        """One argument by position, or by keyword."""
        if index < len(self.positional):
            return self.positional[index]
        return self.keywords.get(keyword) if keyword else None


NO_ARGUMENTS = Arguments([], [], {})
