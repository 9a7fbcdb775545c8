"""Departures of devices that a program met, at the statements that its operations come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modellint.data.device_results import DEPARTURES
from modellint.destinations.coreml.capture.node_values import captured_node
from modellint.results.verification import Departed

if TYPE_CHECKING:
    from modellint.destinations.coreml.capture.node_values import Places
    from modellint.destinations.coreml.capture.routes import Captured as Capture


def on_devices(
    met: Mapping[str, Any], captured: Capture | None = None, places: Places | None = None
) -> Iterator[Departed]:
    """What devices compute otherwise, of operations by the names of departures; without a capture at no place."""
    for name, operation in sorted(met.items()):
        published = DEPARTURES[name]
        node = None if captured is None else captured_node(captured, operation)
        origin = None if captured is None or node is None else captured.origin(node)
        place, module = (None, "") if places is None or node is None else places.of(node)
        yield Departed(
            operation.op_type,
            "" if origin is None else origin.operator,
            module,
            place,
            published.says,
            published.where,
            published.numbers,
            published.instead,
        )
