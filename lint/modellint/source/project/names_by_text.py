"""What a file may bind, by its text alone."""

from __future__ import annotations

import re

_STAR = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+\*", re.MULTILINE)
_ALL = re.compile(r"^__all__\b", re.MULTILINE)
_QUOTED = re.compile(r"[\"'](\w+)[\"']")
_WORD = re.compile(r"\w+")
_IMPORT_LINE = re.compile(r"\bimport\b(.*)$", re.MULTILINE)
_BOUND = re.compile(
    r"^[ \t]*(?:(?:class|(?:async[ \t]+)?def)[ \t]+(\w+)|(\w+)[ \t]*(?:[:=,]|$)|\w+[ \t]+as[ \t]+(\w+))", re.MULTILINE
)


class Outline:
    """What the text of a file, unparsed, may give to those who import everything of it."""

    __slots__ = ("names", "stars")

    def __init__(self, text: str) -> None:
        self.stars = [(len(dots), module) for dots, module in _STAR.findall(text)]
        self.names: frozenset[str] | None = None
        """Found when a second name is asked for: of most files, one at most is."""

    def read_names(self, text: str) -> frozenset[str]:
        """The names that the file may bind."""
        names: set[str] = set()
        if _ALL.search(text):
            names.update(_QUOTED.findall(text))
        else:
            for line in _IMPORT_LINE.findall(text):
                names.update(_WORD.findall(line))
            for groups in _BOUND.findall(text):
                names.update(groups)
        self.names = frozenset(names)
        return self.names
