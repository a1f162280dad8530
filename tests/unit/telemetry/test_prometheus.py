"""What Prometheus reads; parsed by the library's own parser."""

import socket

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.telemetry import metrics, prometheus
from nextcloud_mcp_server.telemetry.metrics import METRICS


def read(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_everything_counted_is_served_beside_the_process() -> None:
    with prometheus.serving("127.0.0.1", free_port()) as port:
        metrics.REQUESTS.add("tools/call", "nc_notes_get_note", "ok")
        metrics.CONSENTS_ASKED.add(value=2)
        metrics.CONSENT_SECONDS.add(value=42)
        metrics.HELD_CALLS.add()
        metrics.HELD_CALLS.add(value=-1)
        metrics.CONNECTIONS.set("connected", value=7)
        metrics.REQUEST_SECONDS.add("tools/call", "nc_notes_get_note", value=0.03)
        samples = read(port)

    labels = (("method", "tools/call"), ("status", "ok"), ("tool", "nc_notes_get_note"))
    assert samples["nextcloud_mcp_requests_total", labels] == 1
    assert samples["nextcloud_mcp_consents_asked_total", ()] == 2
    assert samples["nextcloud_mcp_consent_seconds_bucket", (("le", "60.0"),)] == 1
    assert samples["nextcloud_mcp_consent_seconds_bucket", (("le", "30.0"),)] == 0
    assert samples["nextcloud_mcp_held_calls", ()] == 0
    assert samples["nextcloud_mcp_connections", (("state", "connected"),)] == 7
    timed = (("method", "tools/call"), ("tool", "nc_notes_get_note"))
    assert samples["nextcloud_mcp_request_seconds_count", timed] == 1
    assert samples["process_open_fds", ()] > 0


def test_each_metric_without_labels_is_there_before_it_is_counted() -> None:
    with prometheus.serving("127.0.0.1", free_port()) as port:
        names = {name for name, _ in read(port)}

    unlabelled = [metric for metric in METRICS if not metric.labels]
    assert {f"{one.name}_count" if one.kind == "histogram" else one.name for one in unlabelled} <= names


def test_the_port_is_free_again_afterwards_and_nothing_is_counted() -> None:
    port = free_port()
    for _ in range(2):
        with prometheus.serving("127.0.0.1", port):
            assert metrics.are_exported()
        assert not metrics.are_exported()


def test_a_taken_port_is_refused_with_the_variable_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        with (
            pytest.raises(ConfigurationError, match=f"METRICS_PORT={taken} cannot be served"),
            prometheus.serving("127.0.0.1", taken),
        ):
            raise NotImplementedError
    assert not metrics.are_exported()
