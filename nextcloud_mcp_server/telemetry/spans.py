"""The spans of this server's own work, for OpenTelemetry. Without an exporter they cost next to nothing.

The SDK makes the span of each MCP request. These are its parts. No span has an address, a name or a text of a user.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from opentelemetry.trace import Span, SpanKind, get_tracer

TRACER: Final = "nextcloud-mcp-server"
METHOD, STATUS = "http.request.method", "http.response.status_code"
_tracer = get_tracer(TRACER)


@contextmanager
def nextcloud_request(method: str) -> Generator[Span]:
    """Measure a request to Nextcloud until its answer begins; the caller adds the status."""
    with _tracer.start_as_current_span(
        f"nextcloud {method}",
        kind=SpanKind.CLIENT,
        attributes={METHOD: method},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span
