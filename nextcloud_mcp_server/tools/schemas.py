"""The schemas of the tools' arguments as they were printed from the signatures (`make docs`).

Making ninety of them takes a tenth of a second, which every start would pay; a tool that is not among
them yet gets its schema made.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

#: Where they are, inside the package.
FILE: Final = Path(__file__).with_name("schemas.json")


@cache
def printed() -> dict[str, dict[str, Any]]:
    """Read them, by the tool's name."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def page(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the file anew, one tool a line, so that a change is one line of a diff."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(schema, ensure_ascii=False)}" for name, schema in schemas.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
