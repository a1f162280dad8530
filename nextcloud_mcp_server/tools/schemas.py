"""The schemas of the tools' arguments, generated from the signatures into a file (`make docs`).

Generating ninety of them takes a tenth of a second, which every start would pay. The schema of a tool that is not in
the file yet is generated at run time.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

#: The file in the package.
FILE: Final = Path(__file__).with_name("schemas.json")


@cache
def printed() -> dict[str, dict[str, Any]]:
    """Read the schemas, by tool name."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def page(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of the file, one tool a line, so that a change is one line of a diff."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(schema, ensure_ascii=False)}" for name, schema in schemas.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
