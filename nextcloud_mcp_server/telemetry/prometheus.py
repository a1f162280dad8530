"""Serves the metrics to Prometheus, on a port of their own."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.telemetry.metrics import METRICS, Metric, exported

_PROGRAM: Final = "nextcloud-mcp-server"


class PrometheusExporter:
    """Keeps the metrics in a registry, beside those of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        Info("nextcloud_mcp_server", "The version of this server.", registry=self.registry).info(
            {"version": version(_PROGRAM)}
        )
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in METRICS:
            self._register(metric)

    def _register(self, metric: Metric) -> None:
        name, about, labels = metric.name, metric.about, metric.labels
        match metric.kind:
            case "counter":
                self._counters[name] = Counter(name, about, labels, registry=self.registry)
            case "gauge":
                self._gauges[name] = Gauge(name, about, labels, registry=self.registry)
            case "histogram":
                self._histograms[name] = Histogram(
                    name, about, labels, registry=self.registry, buckets=metric.buckets
                )

    def add(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        """Add a value, or record an observation."""
        match metric.kind:
            case "counter":
                counter = self._counters[metric.name]
                (counter.labels(*labels) if labels else counter).inc(value)
            case "gauge":
                gauge = self._gauges[metric.name]
                (gauge.labels(*labels) if labels else gauge).inc(value)
            case "histogram":
                histogram = self._histograms[metric.name]
                (histogram.labels(*labels) if labels else histogram).observe(value)

    def set(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        """Replace the value of a gauge."""
        gauge = self._gauges[metric.name]
        (gauge.labels(*labels) if labels else gauge).set(value)


@contextmanager
def serving(host: str, port: int) -> Generator[int]:
    """Count, and serve the metrics at `/metrics`; yields the port.

    Raises:
        ConfigurationError: The port is taken, or the host is none of this computer.
    """
    exporter = PrometheusExporter()
    try:
        server, thread = start_http_server(port, addr=host, registry=exporter.registry)
    except OSError as error:
        raise ConfigurationError(
            f"METRICS_PORT={port} cannot be served at {host} ({error.strerror}): choose another port or METRICS_HOST."
        ) from None
    try:
        with exported(exporter):
            yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
