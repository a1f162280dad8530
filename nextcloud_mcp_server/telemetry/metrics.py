"""The metrics of this server. Without an exporter nothing is counted, and no library is loaded.

Each layer counts at the place where it knows how something ended. No label names a user, a client, or what a request
contained, and each label has few values: names that a client makes up are counted as `other`.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

#: In seconds: from a call that the server answers itself to one that waits for an upload.
_CALL_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: In seconds: a user reads, perhaps signs in, and allows.
_CONSENT_BUCKETS: Final = (5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `labels` are the names of its labels, `buckets` the upper bounds of a histogram."""

    name: str
    about: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def add(self, *labels: str, value: float = 1) -> None:
        """Add to a counter or a gauge, or record an observation of a histogram."""
        if _exporters:
            _exporters[-1].add(self, labels, value)

    def set(self, *labels: str, value: float) -> None:
        """Set a gauge."""
        if _exporters:
            _exporters[-1].set(self, labels, value)


class Exporter(Protocol):
    """Keeps the values until a monitoring system reads them."""

    def add(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        """Add a value, or record an observation."""
        ...

    def set(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        """Replace a value."""
        ...


_exporters: Final[list[Exporter]] = []


@contextmanager
def exported(exporter: Exporter) -> Generator[None]:
    """Count for this exporter until the context ends."""
    _exporters.append(exporter)
    try:
        yield
    finally:
        _exporters.remove(exporter)


def are_exported() -> bool:
    """Tell whether anything is counted."""
    return bool(_exporters)


REQUESTS: Final = Metric(
    "nextcloud_mcp_requests_total",
    "MCP requests by method, tool, and how they ended.",
    "counter",
    ("method", "tool", "status"),
)
REQUEST_SECONDS: Final = Metric(
    "nextcloud_mcp_request_seconds",
    "Time that MCP requests took, with the time that a call was held for a consent.",
    "histogram",
    ("method", "tool"),
    _CALL_BUCKETS,
)
HELD_CALLS: Final = Metric("nextcloud_mcp_held_calls", "Calls that wait for a consent now.", "gauge")
RESPONSES: Final = Metric(
    "nextcloud_mcp_nextcloud_responses_total",
    "Responses of Nextcloud by HTTP method and status; 'none' where no response came.",
    "counter",
    ("method", "status"),
)
RESPONSE_SECONDS: Final = Metric(
    "nextcloud_mcp_nextcloud_response_seconds",
    "Time until Nextcloud began to answer.",
    "histogram",
    ("method",),
    _CALL_BUCKETS,
)
CONSENTS_ASKED: Final = Metric(
    "nextcloud_mcp_consents_asked_total", "Consent requests that were made.", "counter"
)
CONSENTS: Final = Metric(
    "nextcloud_mcp_consents_total",
    "Consent requests that ended, by outcome: complete, declined, failed or expired.",
    "counter",
    ("outcome",),
)
CONSENT_SECONDS: Final = Metric(
    "nextcloud_mcp_consent_seconds",
    "Time from a consent request to the user's consent.",
    "histogram",
    (),
    _CONSENT_BUCKETS,
)
REFRESHES: Final = Metric(
    "nextcloud_mcp_token_refreshes_total",
    "Refreshes of Nextcloud's access tokens by outcome: refreshed, postponed or refused.",
    "counter",
    ("outcome",),
)
CONNECTIONS: Final = Metric(
    "nextcloud_mcp_connections",
    "Users that are connected to Nextcloud, and those who must consent again ('refused').",
    "gauge",
    ("state",),
)
READY: Final = Metric(
    "nextcloud_mcp_ready",
    "Whether a part that calls need can be used (1) or not (0), as /readyz says.",
    "gauge",
    ("part",),
)
TASKS: Final = Metric(
    "nextcloud_mcp_tasks_total",
    "Tasks by tool, and how they ended in this process.",
    "counter",
    ("tool", "status"),
)
METRICS: Final = (
    REQUESTS,
    REQUEST_SECONDS,
    HELD_CALLS,
    RESPONSES,
    RESPONSE_SECONDS,
    CONSENTS_ASKED,
    CONSENTS,
    CONSENT_SECONDS,
    REFRESHES,
    CONNECTIONS,
    READY,
    TASKS,
)
