"""The JSON Schema of the settings, by which editors complete and check them; generated, and shipped as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from modellint.settings import CHOICES, KEYS, MODEL_KEYS

FILE = Path(__file__).parent / "data" / "settings.schema.json"


class Description(NamedTuple):
    """What a setting means, and what holds without it, in words."""

    meaning: str
    default: str


SETTINGS: Mapping[str, Description] = {
    "select": Description("The rules that run: codes, their beginnings, or ALL.", "the default rules"),
    "ignore": Description("The rules that do not run; of two entries for a code the longer one decides.", "none"),
    "extend-select": Description("Rules that run besides those that run anyway.", "none"),
    "per-file-ignores": Description(
        "Patterns of files, as in .gitignore, each with the rules that do not run there; ! before a pattern means all others.",
        "none",
    ),
    "exclude": Description("Patterns of files and folders, as in .gitignore, that are left out.", "nothing"),
    "fail-level": Description("The least severity that makes the exit code 1.", "warning"),
    "output-format": Description("How findings are printed.", "full"),
    "baseline": Description("The file of known findings, which are not reported.", "none"),
    "extend": Description("Another settings file, which this one adds to.", "none"),
    "deployment-target": Description("The oldest system that has to run the models.", "iOS15"),
    "coreml-version": Description("The version of coremltools that converts.", "the newest known"),
    "coreai-version": Description("The version of coreai-torch that converts.", "the newest known"),
    "precision": Description("What models compute in on Core ML.", "fp16"),
    "destination": Description("What runs the models: Core ML, Core AI, or both.", "coreml"),
    "frontend": Description("How models are captured for Core ML.", "auto"),
    "module-bases": Description(
        "Dotted names of classes that are taken for nn.Module where their own file is not in the project.", "none"
    ),
    "prelu-import": Description("The module that fixes import CustomPReLU from.", "they write the class"),
    "docs-url": Description("Where the rules' pages are; findings in JSON then have a url.", "none"),
    "plugins": Description(
        "Plug-ins, rules by others: names, folders or files; left out unless the user trusts the project.", "none"
    ),
    "models": Description("The live targets that --models checks.", "none"),
}
"""Every key, in the order in which they are explained."""
MODELS: Mapping[str, str] = {
    "target": "The model: model.py:Net or package.module:Net.",
    "inputs": "What it is called with, as --input takes it.",
    "checkpoint": "A file of weights that it is compared with.",
}


def text() -> str:
    """The schema as it is shipped."""
    return FILE.read_text("utf-8")


def generate(codes: Iterable[str]) -> str:
    """The schema by what ``settings`` accepts; ``codes`` are those of the rules that come with modellint."""
    assert {*SETTINGS} == {*KEYS}
    assert {*MODELS} == {*MODEL_KEYS}
    known = sorted(codes)
    selectors = [*dict.fromkeys(code[:3] for code in known), *known, "ALL"]
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "modellint",
        "description": "The settings of modellint: [tool.modellint] in pyproject.toml, or modellint.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {
                **_type(key),
                "description": f"{description.meaning} Default: {description.default}.",
            }
            for key, description in SETTINGS.items()
        },
        "definitions": {
            # Rules of plug-ins have codes of their own.
            "selector": {"anyOf": [{"enum": selectors}, {"type": "string", "pattern": "^[A-Za-z]{1,3}[0-9]{0,3}$"}]},
            "selectors": {"type": "array", "items": {"$ref": "#/definitions/selector"}},
            "model": {
                "type": "object",
                "additionalProperties": False,
                "required": ["target"],
                "properties": {key: {**_model_type(key), "description": what} for key, what in MODELS.items()},
            },
        },
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _type(key: str) -> dict[str, Any]:
    if key in CHOICES:
        return {"enum": list(CHOICES[key])}
    if key in ("select", "ignore", "extend-select"):
        # What stands beside a reference counts for nothing in this draft.
        return {"allOf": [{"$ref": "#/definitions/selectors"}]}
    if key == "per-file-ignores":
        return {"type": "object", "additionalProperties": {"$ref": "#/definitions/selectors"}}
    if key == "models":
        model = {"$ref": "#/definitions/model"}
        return {"anyOf": [{"type": "array", "items": model}, model]}
    if key in ("exclude", "module-bases", "plugins"):
        return {"type": "array", "items": {"type": "string"}}
    return {"type": "string"}


def _model_type(key: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}} if key == "inputs" else {"type": "string"}
