"""Records of runs: copies of a program's files that a run put beside its results, and models that another converter wrote out."""

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


_OF_PNNX = frozenset({"export_torchscript", "export_pnnx", "test_inference"})
"""Functions that stand in every model that pnnx, the converter of ncnn, writes out beside what it converts."""


def is_written_by_a_converter(file: IndexedFile) -> bool:
    """Whether a file is a graph that pnnx wrote out in Python: nobody writes it, and it is the model behind another conversion."""
    return all(name in file.functions for name in _OF_PNNX)


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
