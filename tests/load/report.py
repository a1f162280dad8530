"""Compares the limits with what was measured."""

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version

from tests.load.measure import CONCURRENCY, TRANSPORTS, Calls, Measured
from tests.load.metric import Metric
from tests.load.multi_user_report import multi_user_metrics
from tests.load.servers import TIMED

#: The first heading of what is written by hand below the measurements.
BY_HAND = "\n## Many people\n"
_ALSO_BY_HAND = "\n## Replicas\n"
MARKS = {True: "✓", False: "✗", None: "·"}


def metrics(measured: Measured) -> list[Metric]:
    """Return the metric of every limit."""
    return [
        *_starts(measured),
        _packages(measured),
        *_calls(measured),
        *_requests(measured),
        *_listing(measured),
        *_sizes(measured),
        _big(measured),
        _year(measured),
        *_felt(measured),
        _token(measured),
        *_token_requests(measured),
        *multi_user_metrics(measured),
        *_bridged(measured),
    ]


def _ratio(name: str, limit: float, ours: list[float], baseline: list[float], unit: str) -> Metric:
    """Compare the minimum of all starts: other work on the machine can only add to it."""
    budget = f"≤ {limit} times floor"
    if not ours or not baseline:
        return Metric(name, budget, "not measured", None)
    mine, base = min(ours), min(baseline)
    digits = 2 if unit == "s" else 0
    found = f"{mine / base:.2f} times ({mine:.{digits}f} {unit} : {base:.{digits}f} {unit})"
    return Metric(name, budget, found, mine / base <= limit)


def _starts(measured: Measured) -> Iterator[Metric]:
    for transport in TRANSPORTS:
        ours, baseline = measured.starts["ours", transport], measured.starts["floor", transport]
        yield _ratio(f"start to tools/list, {transport}", 1.3, ours.seconds, baseline.seconds, "s")
        yield _ratio(f"memory then, {transport}", 1.25, ours.listed_mb, baseline.listed_mb, "MB")
        yield _ratio(
            f"memory after the first call, {transport}", 1.8, ours.called_mb, baseline.called_mb, "MB"
        )
        everything = measured.starts["everything", transport].seconds
        yield _ratio(f"start with every toolset, {transport}", 1.5, everything, baseline.seconds, "s")


def _packages(measured: Measured) -> Metric:
    count = measured.packages
    if count is None:
        return Metric("packages of a default install", "≤ 60", "not measured (--install)", None)
    return Metric("packages of a default install", "≤ 60", str(count), count <= 60)


def _calls(measured: Measured) -> Iterator[Metric]:
    for scenario in TIMED:
        for transport in TRANSPORTS:
            ours, thin = (
                measured.calls.get((name, scenario.name, transport, CONCURRENCY[0]))
                for name in ("ours", "thin")
            )
            yield _latency(f"{scenario.name}, p50 at 1, {transport}", ours, thin)
            ours, thin = (
                measured.calls.get((name, scenario.name, transport, CONCURRENCY[1]))
                for name in ("ours", "thin")
            )
            yield _throughput(f"{scenario.name}, calls per second at 16, {transport}", ours, thin)


def _latency(name: str, ours: Calls | None, thin: Calls | None) -> Metric:
    if ours is None or thin is None:
        return Metric(name, "≤ 1.5 times thin", "not measured", None)
    ratio = ours.p50 / thin.p50
    return Metric(
        name, "≤ 1.5 times thin", f"{ratio:.2f} times ({ours.p50:.1f} ms : {thin.p50:.1f} ms)", ratio <= 1.5
    )


def _throughput(name: str, ours: Calls | None, thin: Calls | None) -> Metric:
    if ours is None or thin is None:
        return Metric(name, "≥ 75 % of thin", "not measured", None)
    share = ours.rate / thin.rate
    return Metric(name, "≥ 75 % of thin", f"{share:.0%} ({ours.rate:.0f} : {thin.rate:.0f})", share >= 0.75)


def _requests(measured: Measured) -> Iterator[Metric]:
    found = {
        scenario.name: calls.requests_per_call
        for scenario in TIMED
        if (calls := measured.calls.get(("ours", scenario.name, TRANSPORTS[0], CONCURRENCY[0])))
    }
    found |= {f"page of {name}": pages.requests / pages.count for name, pages in measured.pages.items()}
    for name, requests in found.items():
        yield Metric(f"Nextcloud requests, {name}", "1", f"{requests:.2f}", requests <= 1)


def _listing(measured: Measured) -> Iterator[Metric]:
    for server, words, tools, size in (
        ("ours", "by default", 24, 16),
        ("everything", "of all toolsets", 90, 56),
    ):
        found = measured.listed.get(server)
        if found is None:
            yield Metric(f"tools/list {words}", f"≤ {tools} tools, ≤ {size} kB", "not measured", None)
            continue
        yield Metric(f"tools {words}", f"≤ {tools}", str(found.tools), found.tools <= tools)
        yield Metric(
            f"tools/list {words}", f"≤ {size} kB", f"{found.size / 1000:.1f} kB", found.size <= size * 1000
        )
        largest = found.largest
        yield Metric(f"largest tool {words}", "≤ 1.2 kB", f"{largest / 1000:.2f} kB", largest <= 1200)


def _sizes(measured: Measured) -> Iterator[Metric]:
    for name, pages in measured.pages.items():
        found = f"{pages.largest_bytes / 1000:.1f} kB ({pages.count} pages)"
        yield Metric(f"largest result, {name}", "≤ 80 kB", found, pages.largest_bytes <= 80_000)


def _big(measured: Measured) -> Metric:
    added = measured.big_page_mb
    if added is None:
        return Metric("memory that a page of 200 MB adds", "≤ 32 MB", "not measured", None)
    return Metric("memory that a page of 200 MB adds", "≤ 32 MB", f"{added:.1f} MB", added <= 32)


def _year(measured: Measured) -> Metric:
    name = "list a year of 200 recurring events, processor time"
    if measured.year is None:
        return Metric(name, "≤ 150 ms", "not measured", None)
    spent, occurrences = measured.year
    return Metric(name, "≤ 150 ms", f"{spent:.0f} ms ({occurrences:,} occurrences)", spent <= 150)


def _felt(measured: Measured) -> Iterator[Metric]:
    if not measured.felt:
        yield Metric("what a person waits for", "≤ 1.5 times a request", "not measured", None)
    for one in measured.felt:
        ratio = one.ours / one.other
        found = f"{ratio:.2f} times ({one.ours:.0f} ms : {one.other:.0f} ms)"
        yield Metric(one.name, f"≤ {one.limit} times {one.beside}", found, ratio <= one.limit)


def _token(measured: Measured) -> Metric:
    spent = measured.token_milliseconds
    if spent is None:
        return Metric("verify a token", "≤ 0.5 ms", "not measured", None)
    return Metric("verify a token", "≤ 0.5 ms", f"{spent:.2f} ms", spent <= 0.5)


def _token_requests(measured: Measured) -> Iterator[Metric]:
    found = measured.token_requests
    for way, spent in (
        ("without HTTP", found and found.milliseconds),
        ("over HTTP", found and found.http_milliseconds),
    ):
        name = f"a refresh on SQLite, {way}: p50"
        if spent is None:
            yield Metric(name, "≤ 5 ms", "not measured", None)
        else:
            yield Metric(name, "≤ 5 ms", f"{spent:.1f} ms", spent <= 5)
    for kind, agreement in (
        ("SQLite", found and found.sqlite),
        ("PostgreSQL", found and found.postgres),
    ):
        name = f"5 refreshes at once by 2 processes on {kind}: one successor"
        if agreement is None:
            yield Metric(name, "always", "not measured", None)
        else:
            told = f"{agreement.agreed} of {agreement.tries}"
            yield Metric(name, "always", told, agreement.agreed == agreement.tries)


def _bridged(measured: Measured) -> Iterator[Metric]:
    found = measured.bridged
    name, budget = "the bridge adds to a call, p50", "≤ 3 ms"
    start = "start of the bridge to tools/list"
    if found is None:
        yield _ratio(start, 1.6, [], [], "s")
        yield Metric(name, budget, "not measured", None)
        return
    yield _ratio(start, 1.6, found.start_seconds, found.floor_start_seconds, "s")
    yield Metric(name, budget, f"{found.added_ms:.1f} ms", found.added_ms <= 3)
    name, budget = "throughput through the bridge, 16 at once", "≥ 85 % of direct calls"
    yield Metric(name, budget, f"{found.kept_share:.0%}", found.kept_share >= 0.85)
    if found.descriptors_left is not None and found.mb_left is not None:
        told = f"{found.descriptors_left} descriptors, {found.mb_left:.1f} MB"
        met = found.descriptors_left <= 0 and found.mb_left < 1
        yield Metric("1,000 calls leave behind in the bridge", "nothing", told, met)


def table(found: list[Metric]) -> str:
    """Return the metrics as a Markdown table that is readable in a terminal too."""
    rows = [("", "figure", "budget", "measured")]
    rows += [(MARKS[metric.met], metric.name, metric.budget, metric.found) for metric in found]
    return markdown(rows)


def details(measured: Measured) -> str:
    """Return the calls of every server: median milliseconds, calls per second, processor milliseconds."""
    rows: list[tuple[str, ...]] = [("what", "over", "at once", "bare", "floor", "thin", "ours")]
    for scenario in TIMED:
        for transport in TRANSPORTS:
            for concurrency in CONCURRENCY:
                cells = [
                    _cell(calls) if calls else "-"
                    for name in ("bare", "floor", "thin", "ours")
                    for calls in [measured.calls.get((name, scenario.name, transport, concurrency))]
                ]
                rows.append((scenario.name, transport, str(concurrency), *cells))
    return markdown(rows)


def _cell(calls: Calls) -> str:
    cpu = "" if calls.cpu is None else f", {calls.cpu:.1f}"
    return f"{calls.p50:.1f}, {calls.rate:.0f}{cpu}"


def document(measured: Measured, before: str = "", *, whole: bool = False) -> str:
    """Return docs/performance.md; metrics without a new value stay as in the page `before`, unless all are new.

    What is written by hand below stays.
    """
    found = metrics(measured)
    if before and not whole:
        found = _merged(list(_rows(before)), found)
    packages = ", ".join(f"{name} {version(name)}" for name in ("mcp", "httpx2", "uvicorn"))
    return (
        _DOCUMENT.format(
            table=table(found),
            details=details(measured) if measured.calls or whole or not before else _section(before),
            machine=f"Python {platform.python_version()} on {sys.platform}, {os.cpu_count()} cores; {packages}",
        )
        + _split(before)[1]
    )


def _split(page: str) -> tuple[str, str]:
    """Return what this program writes of a page, and what is written by hand below."""
    at = min(
        (page.find(heading) for heading in (BY_HAND, _ALSO_BY_HAND) if heading in page), default=len(page)
    )
    return page[:at], page[at:]


def _merged(before: list[Metric], found: list[Metric]) -> list[Metric]:
    """Replace earlier metrics by new ones, and insert additional ones next to their neighbours."""
    rows = {row.name: row for row in before}
    last = ""
    for one in found:
        if one.met is not None and one.name not in rows:
            names = list(rows)
            at = names.index(last) + 1 if last else 0
            items = list(rows.items())
            rows = dict([*items[:at], (one.name, one), *items[at:]])
        elif one.met is not None:
            rows[one.name] = one
        last = one.name if one.name in rows else last
    return list(rows.values())


def _rows(page: str) -> Iterator[Metric]:
    """Parse the metrics of a page."""
    met = {mark: value for value, mark in MARKS.items()}
    for line in page.partition("## Calls")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] in met:
            yield Metric(cells[1], cells[2], cells[3], met[cells[0]])


def _section(page: str) -> str:
    """Return the section about calls of a page."""
    lines = _split(page)[0].partition("## Calls")[2].splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def markdown(rows: list[tuple[str, ...]]) -> str:
    """Return rows as a Markdown table; the first is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join((lines[0], rule, *lines[1:]))


_DOCUMENT = """\
# Performance

Written by `make bench`. Every figure is a ratio or a count of one run, because milliseconds of two
machines or two days do not compare. What stands beside it:

- **floor**: a bare `mcp` server with one tool that does nothing,
- **thin**: the same with one more tool that passes one pooled request through,
- **bare**: the request alone, without MCP.

They all talk to a fast fake Nextcloud in a process of its own, so that the servers' own cost shows and
its requests can be counted. The client speaks raw JSON-RPC; client, server and fake share the cores.
`✓` is within the budget, `✗` is not, `·` was not measured.

The first `tools/list` names only tools whose app this Nextcloud has. So where a credential is configured, the start
includes two requests to Nextcloud.

What a person waits for is compared with a single request to a sandbox whose requests take 80 ms and more, as at
a real Nextcloud. The first month of a person cannot take as long as one request: which calendars there are is asked
for before the events in them, so two requests follow one another, and the budget is 2.5 times. Another month takes one
round of requests, and the same one again a single request, which tells what has changed.

{table}

## Calls

With 1 call and with 16 calls at once: the median time in ms, calls per second, and the server's
processor time per call in ms, the steadiest of the three.

{details}

Measured with {machine}.
"""
