"""Hooks: what a project puts around the `forward` of its modules, which only a call of the module runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from modellint.source.project.symbols import IndexedFile
from modellint.source.roles.files.application_reachability import is_of_application

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_SET = re.compile(
    rb"register_(?:module_)?(?:full_)?(?:forward|backward)_|\bweight_norm\b|\bspectral_norm\b|\bprune\b|(?<!re)\.compile\(|\b_?hooks?\b"
    rb"|\bfully_shard\b|\bFSDP\b|FullyShardedDataParallel|\bapply_hooks\b|\bthop\b|\btorchinfo\b|\btorchsummary\b|\bquantization\b"
)
"""What sets hooks, parametrisations of the old kind or a compiled call, of PyTorch or of libraries that do."""


def registers_no_hook(project: Project, file: IndexedFile) -> bool:
    """Whether a file is of an application, none of whose files sets anything that works in a module's ``__call__``."""
    return is_of_application(project, file) and project.remembered(
        ("no hooks",),
        lambda: not any(project.mentions.matches(path, _SET) for path in project.mentions.naming("torch")),
    )
