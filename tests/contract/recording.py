"""The recordings, as values."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

FOLDER = Path(__file__).parent / "recordings"

_SIZE = re.compile(r"<(\d+) bytes>")


@dataclass(frozen=True, slots=True)
class Recording:
    """One request and the answer a real Nextcloud gave."""

    name: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer_headers: Mapping[str, str]
    answer: "str | Mapping[str, Any] | None"

    @property
    def text(self) -> str:
        """The recorded body as text, as far as it was kept."""
        if isinstance(self.answer, str):
            return self.answer
        return "" if self.answer is None else str(self.answer.get("truncated", ""))

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON is anything
        return json.loads(self.text)


def all_names() -> list[str]:
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.json"))


def load(name: str) -> Recording:
    raw = cast("dict[str, Any]", json.loads((FOLDER / f"{name}.json").read_text("utf-8")))
    request, response = raw["request"], raw["response"]
    return Recording(
        name=name,
        method=request["method"],
        path=request["path"],
        headers=request["headers"],
        body=_body(request["body"]),
        status=response["status"],
        answer_headers={key.lower(): value for key, value in response["headers"].items()},
        answer=response["body"],
    )


def _body(raw: "str | dict[str, Any] | None") -> bytes:
    if raw is None:
        return b""
    if isinstance(raw, dict):
        return base64.b64decode(raw["base64"])
    size = _SIZE.fullmatch(raw)
    return b"x" * int(size[1]) if size else raw.encode()
