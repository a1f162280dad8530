"""What a collector is told: which kind of request took how long, and nothing of its contents."""

from collections.abc import Generator

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from nextcloud_mcp_server.telemetry.spans import METHOD, STATUS, TRACER
from nextcloud_mcp_server.telemetry.tracing import WithoutContents

KNOWN = {"tools/call", "prompts/get", "nc_notes_get_note"}
SDK = "mcp-python-sdk"


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(memory: InMemorySpanExporter) -> Generator[TracerProvider]:
    made = TracerProvider(resource=Resource({"service.name": "test"}))
    made.add_span_processor(SimpleSpanProcessor(WithoutContents(memory, KNOWN)))
    yield made
    made.shutdown()


def sent(memory: InMemorySpanExporter) -> ReadableSpan:
    (span,) = memory.get_finished_spans()
    return span


def test_a_call_is_named_by_method_and_tool(provider: TracerProvider, memory: InMemorySpanExporter) -> None:
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "nc_notes_get_note"}
    with provider.get_tracer(SDK).start_as_current_span("anything", attributes=attributes):
        pass

    span = sent(memory)
    assert span.name == "tools/call nc_notes_get_note"
    assert dict(span.attributes or {}) == attributes


def test_names_that_a_client_makes_up_are_not_sent(
    provider: TracerProvider, memory: InMemorySpanExporter
) -> None:
    attributes = {
        "mcp.method.name": "s3cret/method",
        "gen_ai.tool.name": "s3cret tool",
        "jsonrpc.request.id": "s3cret id",
        "made.up": "s3cret",
        "error.type": "x" * 1_000,
    }
    with provider.get_tracer(SDK).start_as_current_span("s3cret/method s3cret tool", attributes=attributes):
        pass

    span = sent(memory)
    assert span.name == "other other"
    assert "s3cret" not in span.to_json()
    assert dict(span.attributes or {}) == {
        "mcp.method.name": "other",
        "gen_ai.tool.name": "other",
        "error.type": "x" * 64,
    }


def test_an_error_is_sent_without_its_message(provider: TracerProvider, memory: InMemorySpanExporter) -> None:
    with provider.get_tracer(SDK).start_as_current_span("tools/call") as span:
        span.set_attribute("mcp.method.name", "tools/call")
        span.record_exception(ValueError("s3cret.txt is not there"))
        span.set_status(StatusCode.ERROR, "s3cret.txt is not there")

    told = sent(memory)
    assert told.status.status_code is StatusCode.ERROR
    assert told.status.description is None
    assert not told.events
    assert "s3cret" not in told.to_json()


def test_a_request_to_nextcloud_is_a_part_of_its_call(
    provider: TracerProvider, memory: InMemorySpanExporter
) -> None:
    with (
        provider.get_tracer(SDK).start_as_current_span(
            "call", attributes={"mcp.method.name": "tools/call"}
        ) as call,
        provider.get_tracer(TRACER).start_as_current_span("nextcloud GET", kind=SpanKind.CLIENT) as span,
    ):
        span.set_attributes({METHOD: "GET", STATUS: 200})

    part = next(span for span in memory.get_finished_spans() if span.name == "nextcloud GET")
    assert part.parent is not None
    assert part.parent.span_id == call.get_span_context().span_id
    assert dict(part.attributes or {}) == {METHOD: "GET", STATUS: 200}
    assert part.resource.attributes["service.name"] == "test"
    assert part.kind is SpanKind.CLIENT
