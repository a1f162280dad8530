"""The bundle that desktop applications install: the wheel, and which versions of its dependencies belong to it.

The application's own uv fetches those for the computer at hand, so one file serves all of them.
"""

import json
import re
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from release.catalogues import bundle_manifest
from release.facts import ROOT, Facts

#: The same file each time: nothing in it says when it was made.
_WHEN: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o100644
_START: Final = '''"""Starts the server for the application that opened this bundle."""

import sys

from nextcloud_mcp_server.cli import main

sys.argv = ["nextcloud-mcp-server", "serve"]
main()
'''


def write_bundle(facts: Facts, wheel: Path, folder: Path) -> Path:
    """Write the bundle into a folder, and return its path."""
    files = {
        "manifest.json": f"{json.dumps(bundle_manifest(facts), indent=2)}\n".encode(),
        "pyproject.toml": project(facts, wheel.name).encode(),
        "server.py": _START.encode(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    path = folder / facts.bundle
    with ZipFile(path, "w", ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            entry = ZipInfo(name, _WHEN)
            entry.external_attr = _READABLE << 16
            bundle.writestr(entry, content, ZIP_DEFLATED)
    return path


def project(facts: Facts, wheel: str) -> str:
    """Return the bundle's `pyproject.toml`, with the versions of `requirements-server.lock`."""
    pins = "".join(f"  {json.dumps(pin)},\n" for pin in pins_of("requirements-server.lock"))
    return (
        f'[project]\nname = "{facts.name}-bundle"\nversion = "{facts.version}"\n'
        f'requires-python = "{facts.python}"\ndependencies = ["{facts.name}"]\n\n'
        f"[tool.uv]\npackage = false\nconstraint-dependencies = [\n{pins}]\n\n"
        f'[tool.uv.sources]\n{facts.name} = {{ path = "{wheel}" }}\n'
    )


def pins_of(lock: str) -> list[str]:
    """List the pins of a lock, with their conditions."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return re.findall(r"^([a-z0-9][^\\\n]*?) \\$", text, re.MULTILINE)
