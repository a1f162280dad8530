"""Schemas that others publish, as their packages bring them.

`check-jsonschema` has those of the Compose specification and of GitHub's workflows (SchemaStore), both Apache-2.0;
`@anthropic-ai/mcpb` (MIT) has that of a bundle's manifest. No package brings those of the MCP registry and of Nextcloud
All-in-One: `tests/unit/release` has their rules, and `.github/workflows/release.yml` uses the published files.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from check_jsonschema.builtin_schemas import get_builtin_schema  # pyright: ignore[reportMissingTypeStubs]
from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry, Resource
from ruamel.yaml import YAML

from tests.node import NODE_MODULES, not_installed


def read_yaml(source: Path | str) -> dict[str, Any]:
    """Read a YAML file, or a text, as its program does: anchors and merge keys are resolved."""
    return cast("dict[str, Any]", YAML(typ="safe", pure=True).load(source))  # pyright: ignore[reportUnknownMemberType]


def broken_rules_of_compose(document: object) -> list[str]:
    """Compare with the Compose specification."""
    return _errors(Draft202012Validator(_built_in("vendor.compose-spec")), document)


def broken_rules_of_server_card(document: object) -> list[str]:
    """Compare with the schema of the Server Card extension, which is kept beside the tests."""
    return _errors(_kept("server-card", "ServerCard"), document)


def broken_rules_of_kubernetes(document: Mapping[str, Any]) -> list[str]:
    """Compare with the schema of the object's kind, which is kept beside the tests; no unknown field passes."""
    group = {"v1": "core.v1"}.get(document["apiVersion"]) or document["apiVersion"].replace("/", ".")
    name = group.removesuffix(".v1").partition(".")[0]
    return _errors(_kept("kubernetes", f"io.k8s.api.{name}.v1.{document['kind']}"), document)


def broken_rules_of_sbom(document: object) -> list[str]:
    """Compare with the schema of CycloneDX 1.6, which the library of its makers brings."""
    folder, schemas = files("cyclonedx.schema") / "_res", Registry[Any]()
    # The schema names the others by these names.
    for name in (names := [f"{one}.SNAPSHOT.schema.json" for one in ("bom-1.6", "jsf-0.82", "spdx")]):
        schema = json.loads((folder / name).read_text(encoding="utf-8"))
        schemas = schemas.with_resource(name, Resource[Any].from_contents(schema))
    return _errors(Draft7Validator({"$ref": names[0]}, registry=schemas), document)


def broken_rules_of_workflow(document: object) -> list[str]:
    """Compare with the schema of GitHub's workflows."""
    return _errors(Draft7Validator(_built_in("vendor.github-workflows")), document)


def broken_rules_of_bundle(document: object, version: str) -> list[str]:
    """Compare with the schema of a bundle's manifest, in a version of the format."""
    file = NODE_MODULES / "@anthropic-ai" / "mcpb" / "schemas" / f"mcpb-manifest-v{version}.schema.json"
    if not file.is_file():
        not_installed("@anthropic-ai/mcpb")
    return _errors(Draft7Validator(json.loads(file.read_text(encoding="utf-8"))), document)


def _kept(file: str, definition: str) -> Draft202012Validator:
    text = (Path(__file__).parent / "schemas" / f"{file}.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator({**json.loads(text), "$ref": f"#/$defs/{definition}"})


def _built_in(name: str) -> dict[str, Any]:
    return get_builtin_schema(name)


def _errors(validator: Draft7Validator | Draft202012Validator, document: object) -> list[str]:
    found = cast("Any", validator).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]
