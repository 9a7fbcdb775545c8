"""A pre-export linter and static checker for PyTorch models on their way to Core ML.

Importing this module is cheap: nothing of torch, coremltools or libcst is loaded until it is used.
"""

# Nothing is imported here: below `python -m` it could come from the current folder.
TYPE_CHECKING = False

__all__ = [
    "CheckFailed",
    "ExportError",
    "ExportResult",
    "Input",
    "LanguageModelError",
    "LanguageModelResult",
    "PipelineError",
    "PipelineResult",
    "Progress",
    "Report",
    "__version__",
    "check_model",
    "check_source",
    "export",
    "export_pipeline",
    "fix_model",
    "language_model",
    "shapes",
    "verify",
    "with_constants",
    "with_random_inputs",
]

if TYPE_CHECKING:
    from typing import Any

    from modellint.api import CheckFailed as CheckFailed
    from modellint.api import ExportError as ExportError
    from modellint.api import ExportResult as ExportResult
    from modellint.api import Input as Input
    from modellint.api import LanguageModelError as LanguageModelError
    from modellint.api import LanguageModelResult as LanguageModelResult
    from modellint.api import PipelineError as PipelineError
    from modellint.api import PipelineResult as PipelineResult
    from modellint.api import Progress as Progress
    from modellint.api import Report as Report
    from modellint.api import check_model as check_model
    from modellint.api import check_source as check_source
    from modellint.api import export as export
    from modellint.api import export_pipeline as export_pipeline
    from modellint.api import fix_model as fix_model
    from modellint.api import language_model as language_model
    from modellint.api import shapes as shapes
    from modellint.api import verify as verify
    from modellint.api import with_constants as with_constants
    from modellint.api import with_random_inputs as with_random_inputs

    __version__: str


def load_ipython_extension(shell: "Any") -> None:
    """What IPython calls for ``%load_ext modellint``."""
    from modellint import ipython_extension

    ipython_extension.load(shell)


def unload_ipython_extension(shell: "Any") -> None:
    """What IPython calls for ``%unload_ext modellint``."""
    from modellint import ipython_extension

    ipython_extension.unload(shell)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from modellint.version import version

        return version()
    if name in __all__:
        from modellint import api

        return getattr(api, name)
    if name in ("nn", "testing"):
        from importlib import import_module

        return import_module(f"modellint.{name}")
    raise AttributeError(f"module 'modellint' has no attribute {name!r}")
