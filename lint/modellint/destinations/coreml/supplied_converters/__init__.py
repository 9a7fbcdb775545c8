"""Converters of PyTorch operators that an export supplies to coremltools' torch front end: missing ones, and right ones for wrong."""

from __future__ import annotations

from modellint.destinations.coreml.supplied_converters.registration import Supplied, Used, supplied

__all__ = ["Supplied", "Used", "supplied"]
