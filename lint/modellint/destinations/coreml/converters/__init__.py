"""Converters of ours for coremltools' torch front end: ones that it lacks, and ones that mend what it gets wrong."""

from __future__ import annotations

from modellint.destinations.coreml.converters.registration import Supplied, Used, supplied

__all__ = ["Supplied", "Used", "supplied"]
