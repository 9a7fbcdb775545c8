"""What is known of coremltools, by version, and of what is installed: the questions that rules ask. Imports neither it nor torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.data.number_types import FLOAT16, INT32

if TYPE_CHECKING:
    from modellint.data.operator_conversion import Operator


class CoreML:
    """The tables that were measured of coremltools' converters, and the versions that are installed here.

    A version is that of ``Destination.coremltools``: None stands for the newest that was released.
    """

    float16 = FLOAT16
    """The float16 in which it computes by default: ``smallest``, its smallest positive number, and ``largest``."""
    int32 = INT32
    """The int32 to which it narrows whole numbers."""

    @staticmethod
    def custom_prelu_text(nn_name: str = "nn", torch_name: str = "torch") -> str:
        """The class statement of ``CustomPReLU``, which converts at every rank, for a file that calls ``torch.nn`` and ``torch`` so."""
        from modellint.nn.custom_prelu_source import custom_prelu_text

        return custom_prelu_text(nn_name, torch_name)

    @staticmethod
    def operator(name: str, version: str | None) -> Operator | None:
        """By which routes a function, method or layer of torch converts (``torch.Tensor.fmod``); None where nothing is amiss."""
        from modellint.data.operator_conversion import operator

        return operator(name, version)

    @staticmethod
    def has_converter(kind: str, version: str | None) -> bool:
        """Whether a version has a converter under a name of its front end (``ior``, ``torchvision::roi_align``)."""
        from modellint.destinations.coreml.operator_support import has_converter

        return has_converter(kind, version)

    @staticmethod
    def public_name(name: str) -> str:
        """The name under which the tables have a function or class of torch."""
        from modellint.data.operator_conversion import public_name

        return public_name(name)

    @staticmethod
    def words_of_newer(ios: int) -> frozenset[str]:
        """Trigger words: code that names an operator which needs a newer system holds one of them."""
        from modellint.data.operator_conversion import words_of_newer

        return words_of_newer(ios)

    @staticmethod
    def supplied_exactness(operator: str) -> str | None:
        """How exact the converter is that `modellint export` supplies for an operator (``aten::fmod``); None where there is none."""
        from modellint.data.supplied_converters import exactness

        return exactness(operator)

    @staticmethod
    def here() -> str:
        """The name of what is installed, or of what stands in for it; the newest release where it is not installed."""
        from modellint.data.operator_conversion import version_shown

        if CoreML.installed("coremltools") is None:
            return version_shown(None)
        from modellint.destinations.coreml.private.installed_capabilities import facts

        return facts().name

    @staticmethod
    def prelu_ranks(version: str | None) -> frozenset[int]:
        """The ranks at which a version, or the nearest older one that was measured, takes slopes of a `PReLU` that differ."""
        from modellint.data.coremltools_version_facts import nearest

        return frozenset(nearest(CoreML.shown(version)).prelu_ranks)

    @staticmethod
    def has_fault(fault: str, version: str | None) -> bool:
        """Whether a known fault (``add-alpha``) showed beside a version, or the nearest older one that was measured."""
        from modellint.data.coreml_faults import is_wrong
        from modellint.data.coremltools_version_facts import nearest

        return is_wrong(fault, nearest(CoreML.shown(version)).name)

    @staticmethod
    def numpy_below(version: str) -> str | None:
        """The first numpy that breaks the conversion of traced models by a version, or by the nearest older one that was measured."""
        from modellint.data.coremltools_version_facts import nearest

        return nearest(version).numpy_below

    @staticmethod
    def shown(version: str | None) -> str:
        """A version as people read it."""
        from modellint.data.operator_conversion import version_shown

        return version_shown(version)

    @staticmethod
    def is_at_least(version: str | None, since: str) -> bool:
        """Whether a version is not older than one of the tables."""
        from modellint.data.coreml_operators import VERSIONS
        from modellint.data.operator_conversion import table_version

        return table_version(version) >= VERSIONS.index(since)

    @staticmethod
    def installed(name: str) -> str | None:
        """The version of a distribution that is installed; None where it is not."""
        from modellint.destinations.coreml import installed_versions

        return installed_versions.version(name)

    @staticmethod
    def release(version: str) -> tuple[int, ...]:
        """The numbers that a version begins with, so that releases compare."""
        from modellint.destinations.coreml import installed_versions

        return installed_versions.release(version)

    @staticmethod
    def tested_torch() -> str | None:
        """The newest torch that the installed coremltools was tested with, as it warns itself."""
        from modellint.destinations.coreml import installed_versions

        return installed_versions.tested_torch()


coreml = CoreML()
"""What is known of coremltools and of what is installed: ``coreml.operator("torch.fmod", None)``."""
