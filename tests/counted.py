"""An exporter of metrics for tests: adds up what is counted."""

from dataclasses import dataclass, field

from nextcloud_mcp_server.telemetry.metrics import Metric


@dataclass
class Counted:
    """Sums by metric and labels; of histograms also how often."""

    sums: dict[tuple[str, ...], float] = field(default_factory=dict[tuple[str, ...], float])
    times: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])

    def add(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        assert len(labels) == len(metric.labels)
        key = (metric.name, *labels)
        self.sums[key] = self.sums.get(key, 0) + value
        self.times[key] = self.times.get(key, 0) + 1

    def set(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        assert len(labels) == len(metric.labels)
        self.sums[(metric.name, *labels)] = value
