"""Known faults of coremltools beside the installed version: what one version converts wrong, another has mended."""

from __future__ import annotations

from modellint.authoring import coreml


def shows(fault: str) -> bool:
    """Whether a fault of ``coreml_faults.json`` was seen beside the installed coremltools."""
    return coreml.has_fault(fault, coreml.here())
