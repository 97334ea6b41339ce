"""The JSON schemas of the documentation, which refer to each other."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = Path(__file__).parents[2] / "docs" / "schema"


def validator(name: str) -> Draft202012Validator:
    """Return a validator of the schema, which finds the others beside it."""
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")]
    registry: Registry[object] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas
    )
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, registry=registry)
