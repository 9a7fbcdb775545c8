"""Files that are not Python, of which nothing but their text is known: whether a model may need them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_MODEL = re.compile(rb"\bdef +forward\b|\bModule\b")
_MOST_IMPORTERS = 60
"""What more files than these import, in turn, is not followed."""


def is_apart_from_models(project: Project, path: str, text: str) -> bool:
    """Whether a file holds no model, nor does one that imports it, or that imports one of these, while others of its project do."""
    if _MODEL.search(text.encode("utf-8", "surrogateescape")):
        return False
    project.touch_tree()
    mentions = project.mentions
    if not mentions.is_whole or not any(other != path for other in mentions.naming("forward")):
        return False
    pending = [path]
    for imported in pending:
        for importer in mentions.importing(imported):
            if mentions.matches(importer, _MODEL):
                return False
            if importer not in pending:
                pending.append(importer)
        if len(pending) > _MOST_IMPORTERS:
            return False
    return True
