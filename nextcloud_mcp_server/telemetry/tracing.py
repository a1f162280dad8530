"""Sends traces to an OpenTelemetry collector (OTLP over HTTP), without contents and without ids of users.

The spans of the SDK's requests repeat what a client wrote (ids of requests, names of tools) and error messages, which
quote names of notes and files. So a span is sent with the attributes below alone.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.util.types import AttributeValue

from nextcloud_mcp_server.telemetry.spans import METHOD, STATUS, TRACER

_MCP_METHOD: Final = "mcp.method.name"
_NAMES: Final = ("gen_ai.tool.name", "gen_ai.prompt.name")
_KEPT: Final = frozenset(
    {
        _MCP_METHOD,
        METHOD,
        STATUS,
        "mcp.protocol.version",
        "gen_ai.operation.name",
        "error.type",
        "rpc.response.status_code",
    }
)
_OTHER: Final = "other"
_LONGEST: Final = 64


class WithoutContents(SpanExporter):
    """Passes spans on with what is the same for every user; `known` are the names of tools, prompts and methods."""

    def __init__(self, exporter: SpanExporter, known: Collection[str]) -> None:
        self._exporter = exporter
        self._known = frozenset(known)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, without what a client or a user wrote."""
        return self._exporter.export([self._cleaned(span) for span in spans])

    def shutdown(self) -> None:
        """End the connection to the collector."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits."""
        return self._exporter.force_flush(timeout_millis)

    def _cleaned(self, span: ReadableSpan) -> ReadableSpan:
        attributes = self._kept(span.attributes or {})
        method = attributes.get(_MCP_METHOD)
        named = next((attributes[name] for name in _NAMES if name in attributes), None)
        own = span.instrumentation_scope is not None and span.instrumentation_scope.name == TRACER
        name = span.name if own else " ".join(str(part) for part in (method or _OTHER, named) if part)
        return ReadableSpan(
            name=name,
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            kind=span.kind,
            # The description of an error quotes names.
            status=Status(span.status.status_code),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _kept(self, attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        kept = {name: _short(value) for name, value in attributes.items() if name in _KEPT}
        for name in (_MCP_METHOD, *_NAMES):
            if name in attributes:
                kept[name] = attributes[name] if attributes[name] in self._known else _OTHER
        return kept


def _short(value: AttributeValue) -> AttributeValue:
    return value[:_LONGEST] if isinstance(value, str) else value


@contextmanager
def traced(endpoint: str, *, known: Collection[str]) -> Generator[None]:
    """Send traces to a collector until the context ends; once in a process."""
    resource = Resource.create({"service.name": TRACER, "service.version": version(TRACER)})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(WithoutContents(exporter, known)))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
