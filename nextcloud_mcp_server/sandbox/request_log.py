"""The requests to the sandbox, for tests that count them."""

from collections import deque
from dataclasses import asdict, dataclass, field

_KEPT = 5_000


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request: method and path, user, kind of credential, and status."""

    method: str
    path: str
    query: str
    user: str | None
    auth: str
    status: int


@dataclass(slots=True)
class RequestLog:
    """The newest requests, and a count of all."""

    total: int = 0
    records: deque[RequestRecord] = field(default_factory=lambda: deque[RequestRecord](maxlen=_KEPT))

    def add(self, record: RequestRecord) -> None:
        """Record a request."""
        self.total += 1
        self.records.append(record)

    def clear(self) -> None:
        """Reset the count."""
        self.total = 0
        self.records.clear()

    def document(self) -> dict[str, object]:
        """Return the log for the control endpoint."""
        return {"total": self.total, "requests": [asdict(record) for record in self.records]}
