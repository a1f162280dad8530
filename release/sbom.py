"""The list of parts of a release (SBOM) in CycloneDX 1.6: what the wheel installs with its extras, as the lock has it.

The image has one of its own besides, made by its builder, which knows the packages of the distribution too.
"""

import re
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, Final

from release.facts import ROOT, Facts

LOCK: Final = "requirements-server.lock"
_ENTRY: Final = re.compile(
    r"^(?P<name>[a-z0-9][\w.-]*)==(?P<version>\S+)(?: ; (?P<condition>[^\\\n]+?))? \\\n"
    r"(?P<hashes>(?: {4}--hash=\S+(?: \\)?\n)+)(?P<via>(?: {4}#.*\n)*)",
    re.MULTILINE,
)
_LONGEST_LICENCE: Final = 60


@dataclass(frozen=True, slots=True)
class Part:
    """A package of the lock, with the hashes of its files and the packages that need it."""

    name: str
    version: str
    condition: str | None
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The name of the package by which advisories name it."""
        return f"pkg:pypi/{self.name}@{self.version}"


def parts_of(text: str) -> list[Part]:
    """Read the packages of a lock that uv wrote."""
    return [
        Part(
            found["name"],
            found["version"],
            found["condition"],
            tuple(re.findall(r"sha256:(\w{64})", found["hashes"])),
            tuple(re.findall(r"^ +#(?: via |   )([a-z0-9][\w.-]*)", found["via"], re.MULTILINE)),
        )
        for found in _ENTRY.finditer(text)
    ]


def sbom(facts: Facts) -> dict[str, Any]:
    """Return the document; it is the same each time, so it does not say when it was made."""
    text = (ROOT / LOCK).read_text(encoding="utf-8")
    parts = parts_of(text)
    ours = f"pkg:pypi/{facts.name}@{facts.version}"
    refs = {facts.name: ours} | {part.name: part.purl for part in parts}
    needs: defaultdict[str, list[str]] = defaultdict(list)
    for part in parts:
        for other in part.needed_by:
            needs[refs[other]].append(part.purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{facts.url}@{facts.version}#{text}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": facts.name,
                "version": facts.version,
                "description": facts.description,
                "licenses": [{"license": {"id": facts.licence}}],
                "externalReferences": [{"type": "vcs", "url": facts.url}],
            }
        },
        "components": [_component(part) for part in parts],
        "dependencies": [{"ref": ref, "dependsOn": needs[ref]} for ref in refs.values()],
    }


def _component(part: Part) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        # One of these files is installed, by the platform.
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{part.name}/{part.version}/#files",
                "hashes": [{"alg": "SHA-256", "content": one} for one in part.hashes],
            }
        ],
    }
    if part.condition is not None:
        found |= {"scope": "optional", "properties": [{"name": "condition", "value": part.condition}]}
    if licence := _licence(part.name):
        found["licenses"] = [licence]
    return found


def _licence(name: str) -> Mapping[str, Any] | None:
    """Return the licence that an installed package states; None if it states none, or is not installed here."""
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return None
    if "License-Expression" in stated:
        return {"expression": stated["License-Expression"]}
    text = stated["License"].strip() if "License" in stated else ""
    if text and "\n" not in text and len(text) <= _LONGEST_LICENCE:
        return {"license": {"name": text}}
    return None
