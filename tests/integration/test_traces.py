"""A server as its own process sends traces to a collector, which is here a server that keeps what it gets."""

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.load.servers import free_port

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]


@contextmanager
def collector(bodies: list[bytes]) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            bodies.append(body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def spans_in(bodies: list[bytes]) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


async def call(url: str) -> None:
    async with (
        httpx2.AsyncClient(timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await client.call_tool("nc_files_read_file", {"path": "s3cret/file.txt"})
        await client.call_tool("nc_notes_list_notes", {})


async def test_a_collector_gets_calls_with_their_requests_to_nextcloud_and_no_contents(
    tmp_path: Path,
) -> None:
    bodies: list[bytes] = []
    with collector(bodies) as endpoint:
        port = free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "DATA_DIR": str(tmp_path),
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "NEXTCLOUD_USERNAME": "alice",
            "NEXTCLOUD_APP_PASSWORD": "alice",
        }
        options = ["--transport", "http", "--sandbox", "--no-local-auth", "--port", str(port)]
        process = await anyio.open_process(
            [sys.executable, "-m", "nextcloud_mcp_server", "serve", *options],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with httpx2.AsyncClient() as http:
                with anyio.fail_after(60):
                    while True:
                        try:
                            await http.get(f"http://127.0.0.1:{port}/healthz")
                            break
                        except httpx2.TransportError:
                            await anyio.sleep(0.05)
            await call(f"http://127.0.0.1:{port}/mcp")
        finally:
            process.terminate()
            await process.wait()

    spans = spans_in(bodies)
    names = {span.name for span in spans}
    assert {"tools/call nc_files_read_file", "tools/call nc_notes_list_notes"} <= names
    called = {span.span_id for span in spans if span.name.startswith("tools/call")}
    parts = [span for span in spans if span.name.startswith("nextcloud ")]
    assert parts
    assert called & {span.parent_span_id for span in parts}
    assert b"s3cret" not in b"".join(bodies)
    assert b"alice" not in b"".join(bodies)
