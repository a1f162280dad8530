"""Faults that a test or the demo can switch on."""

from dataclasses import dataclass, field
from typing import Literal

Area = Literal["notes", "dav", "ocs", "login", "oauth2", "other"]
FaultArea = Literal["notes", "dav", "ocs", "login", "oauth2", "all"]
FaultKind = Literal["slow", "status", "lost_body", "streamed"]
FaultStatus = Literal[401, 423, 429, 503, 507]

#: Marks a request whose PROPFIND is answered piece by piece, in its scope.
STREAMED_KEY = "nextcloud_mcp_server.sandbox.streamed"


class LostAnswer(ConnectionError):
    """The request was carried out, but the connection broke before the response arrived."""


@dataclass(slots=True)
class Fault:
    """One fault: it lets `after` matching requests pass, then hits `times` of them (None: all)."""

    kind: FaultKind
    area: FaultArea = "all"
    times: int | None = None
    after: int = 0
    methods: frozenset[str] | None = None
    seconds: float = 0.0
    status: FaultStatus = 503

    def takes(self, area: Area, method: str) -> bool:
        """Return whether the fault hits this request, and count it."""
        if self.area not in {"all", area} or (self.methods is not None and method not in self.methods):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is None:
            return True
        self.times -= 1
        return self.times >= 0


@dataclass(slots=True)
class Faults:
    """The faults that are switched on."""

    active: list[Fault] = field(default_factory=list[Fault])

    def slow(
        self, seconds: float, *, area: FaultArea = "all", times: int | None = None, after: int = 0
    ) -> None:
        """Wait before each answer."""
        self.active.append(Fault("slow", area=area, times=times, after=after, seconds=seconds))

    def status(
        self, status: FaultStatus, *, area: FaultArea = "all", times: int | None = None, after: int = 0
    ) -> None:
        """Answer with this status, in the form that the area uses, and do nothing."""
        self.active.append(Fault("status", area=area, times=times, after=after, status=status))

    def lost_body(
        self,
        *,
        area: FaultArea = "all",
        times: int | None = 1,
        after: int = 0,
        methods: frozenset[str] | None = None,
    ) -> None:
        """Answer the request, then break the connection instead of answering."""
        self.active.append(Fault("lost_body", area=area, times=times, after=after, methods=methods))

    def streamed(self, *, times: int | None = None, after: int = 0) -> None:
        """Answer PROPFIND piece by piece: what fails then fails after the 207 and the start of its document.

        Nextcloud 33.0.7 and 34.0.2 do so below /remote.php/webdav (nextcloud/server#62164, #63415).
        """
        propfind = frozenset({"PROPFIND"})
        self.active.append(Fault("streamed", area="dav", times=times, after=after, methods=propfind))

    def clear(self) -> None:
        """Switch everything off."""
        self.active.clear()

    def hits(self, area: Area, method: str) -> list[Fault]:
        """List the faults that hit this request, and forget those that are used up."""
        hit = [fault for fault in self.active if fault.takes(area, method)]
        self.active = [fault for fault in self.active if fault.times is None or fault.times > 0]
        return hit
