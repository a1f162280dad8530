"""What is counted, and that no value of it names a user."""

import json
import re
from pathlib import Path
from typing import cast

import pytest

from nextcloud_mcp_server.telemetry import metrics
from nextcloud_mcp_server.telemetry.metrics import METRICS, Metric
from tests.counted import Counted

DOCS = Path(__file__).parents[3] / "docs"
COUNTER = Metric("a_total", "A.", "counter", ("kind",))


def test_without_an_exporter_nothing_is_counted_and_nothing_fails() -> None:
    assert not metrics.are_exported()
    COUNTER.add("x")


def test_an_exporter_gets_what_is_counted_until_its_context_ends() -> None:
    counted = Counted()
    with metrics.exported(counted):
        assert metrics.are_exported()
        COUNTER.add("x")
        COUNTER.add("x", value=2)
    COUNTER.add("x")

    assert counted.sums == {("a_total", "x"): 3}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions_of_prometheus(metric: Metric) -> None:
    """https://prometheus.io/docs/practices/naming/."""
    assert re.fullmatch(r"nextcloud_mcp_[a-z_]+", metric.name)
    assert (metric.name.endswith("_total")) is (metric.kind == "counter")
    assert (metric.name.endswith("_seconds")) is (metric.kind == "histogram")
    assert bool(metric.buckets) is (metric.kind == "histogram")


def test_no_label_names_a_user_or_a_client() -> None:
    assert {label for metric in METRICS for label in metric.labels} == {
        "method",
        "tool",
        "status",
        "outcome",
        "state",
        "part",
    }


def expressions(value: object) -> list[str]:
    """Return every query in a dashboard."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        inside = [each for part in fields.values() for each in expressions(part)]
        return [str(fields["expr"]), *inside] if "expr" in fields else inside
    if isinstance(value, list):
        return [each for part in cast("list[object]", value) for each in expressions(part)]
    return []


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_exist_with_labels_that_exist() -> None:
    dashboard = expressions(json.loads((DOCS / "operate" / "dashboard.json").read_text(encoding="utf-8")))
    alerts = (DOCS / "operate" / "alerts.yml").read_text(encoding="utf-8")
    text = "\n".join([*dashboard, *re.findall(r"expr: (.*)", alerts)])
    known = {metric.name for metric in METRICS}
    known |= {
        f"{metric.name}_{part}"
        for metric in METRICS
        if metric.kind == "histogram"
        for part in ("bucket", "sum", "count")
    }

    assert len(dashboard) >= len(METRICS) - 2
    assert set(re.findall(r"\bnextcloud_mcp_\w+", text)) <= known
    labels = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", text)) | {
        label.strip() for group in re.findall(r"by \(([^)]*)\)", text) for label in group.split(",")
    }
    assert labels <= {label for metric in METRICS for label in metric.labels} | {"le", "job"}


def test_both_sides_of_a_comparison_of_metrics_are_sums() -> None:
    # Prometheus compares series of equal labels alone: one that is no sum has those of its server, so none would match.
    alerts = (DOCS / "operate" / "alerts.yml").read_text(encoding="utf-8")
    compared = [
        re.split(r" > (?:0\.\d+ \* )?", rule)
        for rule in re.findall(r"expr: (.*)", alerts)
        if rule.count("nextcloud_mcp_") > 1
    ]

    assert len(compared) >= len(["unreachable", "fails", "connections", "refreshes"])
    assert [side for sides in compared for side in sides if not side.startswith("sum(")] == []


def test_the_page_for_operators_explains_each_metric() -> None:
    text = (DOCS / "operate" / "monitoring.md").read_text(encoding="utf-8")

    assert [metric.name for metric in METRICS if f"`{metric.name}`" not in text] == []
