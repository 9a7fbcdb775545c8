"""Records of runs: copies of a program's files that a run put beside its results."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from modellint.source.project.symbols import IndexedFile

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_FOLDERS = re.compile(
    r"(?:logs?|runs?|outputs?|results?|wandb|mlruns|lightning_logs|checkpoints?|ckpts?|work_dirs?|snapshots?)",
    re.IGNORECASE,
)
"""What folders are called that runs write to."""


def is_record_of_a_run(project: Project, file: IndexedFile) -> bool:
    """Whether a file lies among what runs have written, and one of its name and text stands where programs are kept.

    The other is what is worked on, and what findings are told of.
    """
    if not _is_written_by_runs(project, file.path):
        return False
    project.touch_tree()
    mentions = project.mentions
    name = os.path.basename(file.path)  # noqa: PTH119
    others = mentions.code_files(f"named {name}", lambda path: path.endswith(os.sep + name))
    return any(
        not _is_written_by_runs(project, other) and mentions.is_alike(file.path, other)
        for other in others
        if other != file.path
    )


def _is_written_by_runs(project: Project, path: str) -> bool:
    folder = PurePath(path).parent
    below = folder.relative_to(project.root).parts if folder.is_relative_to(project.root) else ()
    return any(map(_FOLDERS.fullmatch, below))
