"""Sends a recorded request again, with the ids, etags and secrets of the tested server."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import httpx2

from tests.contract.recording import Recording
from tests.contract.server import Server

_PASSWORD = re.compile(r"Basic <(\w+):password>")


@dataclass(slots=True)
class Session:
    """One replay: the values here for those of the recording, and what is sent besides."""

    server: Server
    recording: Recording
    bound: dict[str, str] = field(default_factory=dict[str, str])
    passwords: dict[str, str] = field(default_factory=dict[str, str])
    cookies: str = ""
    path: str | None = None
    login_path: str = ""
    person: str | None = None
    bearer: str = "bogus"

    def bind(self, recorded: object, actual: object) -> None:
        """Set the value here for a recorded one."""
        self.bound[str(recorded)] = str(actual)

    def translate(self, text: str) -> str:
        """Replace the recorded values by those of this server."""
        if not self.bound:
            return text
        names = sorted(self.bound, key=len, reverse=True)
        pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)
        return re.sub(pattern, lambda found: self.bound[found[0]], text)

    async def replay(self) -> httpx2.Response:
        """Send the recorded request."""
        recording = self.recording
        headers = {key: self.translate(value) for key, value in recording.headers.items()}
        authorization = headers.pop("Authorization", "")
        if headers.pop("Cookie", None) is not None and self.cookies:
            headers["Cookie"] = self.cookies
        if authorization.startswith("Bearer "):
            headers["Authorization"] = f"Bearer {self.bearer}"
        match = _PASSWORD.fullmatch(authorization)
        person = self.person if match is None else match[1]
        password = None
        if person is not None:
            password = self.passwords.get(person) or self.server.passwords.get(person, "nobody")
        body = recording.body
        if recording.method != "GET" and len(body) < 100_000:
            body = self._translate_body(body)
        return await self.server.send(
            recording.method,
            self.path or self.translate(recording.path),
            person=person,
            password=password,
            headers=headers,
            body=body,
        )

    def _translate_body(self, body: bytes) -> bytes:
        try:
            return self.translate(body.decode()).encode()
        except UnicodeDecodeError:
            return body


Step = Callable[[Session], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """How one recording is replayed.

    `admin` needs the administrator's password besides those of alice and bob. `sandbox_only` gives the reason why a
    real server cannot be brought into this state over HTTP. `person` sends the request as a user although the
    recording lacks the header. `loose` compares a multistatus by the kinds of resources in it, not one by one.
    """

    steps: tuple[Step, ...] = ()
    sandbox_only: str | None = None
    loose: bool = False
    person: str | None = None
    ignore: frozenset[str] = frozenset()
    admin: bool = False


def case(
    *steps: Step,
    sandbox_only: str | None = None,
    loose: bool = False,
    person: str | None = None,
    ignore: tuple[str, ...] = (),
    admin: bool = False,
) -> Case:
    return Case(steps, sandbox_only, loose, person, frozenset(ignore), admin)


Table = Mapping[str, Case]
