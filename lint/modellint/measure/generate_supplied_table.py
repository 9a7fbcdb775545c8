"""Table of supplied converters: writes ``data/coreml_supplied.json`` from what the converters of an export declare.

``python -m modellint.measure.generate_supplied_table``, with coremltools and torch.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from modellint.data.supplied_converters import FILE
from modellint.destinations.coreml.supplied_converters.registration import table
from modellint.destinations.decompositions.table import BIT_EQUAL


def declared() -> dict[str, str]:
    """What the converters themselves say, but for names that coremltools alone has; of several for one name the least exact."""

    def order(exactness: str) -> int:
        return 0 if exactness == BIT_EQUAL else int(exactness.split()[1])

    return {
        name.lower(): max((converter.exactness for converter in converters), key=order)
        for name, converters in sorted(table().items())
        if not name.startswith("_internal_op_")
    }


def text() -> str:
    """The file as it is to be."""
    return json.dumps(declared(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(str(resources.files("modellint.data").joinpath(FILE))).write_text(text(), "utf-8")
