"""Tells whether a browser of the user can open a page of this process, so that the consent page can be served here."""

import os
from collections.abc import Mapping
from pathlib import Path

#: Variables of programs that run this one elsewhere than in front of the user, and what they mean.
_ELSEWHERE = {
    "SSH_CONNECTION": "this server was started over SSH",
    "SSH_TTY": "this server was started over SSH",
    "CODESPACES": "this server runs in a codespace",
    "REMOTE_CONTAINERS": "this server runs in a container",
    "KUBERNETES_SERVICE_HOST": "this server runs in a container",
}
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_OLDEST_ANCESTOR = 32


def why_unreachable(environment: Mapping[str, str], *, root: Path = Path("/")) -> str | None:
    """Return why no browser reaches this process; None where one can.

    Clients start their servers with few variables, so the programs that started this one are looked at too.
    """
    for name, reason in _ELSEWHERE.items():
        if environment.get(name):
            return reason
    if any((root / name).exists() for name in _CONTAINER_FILES):
        return _ELSEWHERE["REMOTE_CONTAINERS"]
    return _ELSEWHERE["SSH_TTY"] if _started_by("sshd", root / "proc") else None


def _started_by(program: str, processes: Path) -> bool:
    """Tell whether a program is among the ancestors of this process (Linux, proc(5): `/proc/<pid>/stat`)."""
    process = os.getpid()
    for _ in range(_OLDEST_ANCESTOR):
        try:
            text = (processes / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        # The name stands in parentheses, and may hold some itself.
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 1 :].split()
        if name.startswith(program):
            return True
        process = int(rest[1])
    return False
