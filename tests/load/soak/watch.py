"""Watches the processes and the tables during a soak, and tells whether they grow."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.load import process

#: The share of the time in which a process warms up: all sessions begin, each statement meets the database, and Python
#: has looked for garbage in all of its objects.
WARM_UP = 0.2
#: What may be added from the end of the warm-up to the end.
MOST_MB = 8.0
MOST_DESCRIPTORS = 8.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process holds at one time: seconds since the beginning, MB, open descriptors."""

    at: float
    mb: float
    descriptors: int


def sample(pid: int, at: float) -> Sample:
    """Measure a process."""
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Sample(at, process.resident_mb(pid), descriptors)


@dataclass(frozen=True, slots=True)
class Trend:
    """How something develops after the warm-up: the line through its values, and what that adds until the end."""

    first: float
    last: float
    added: float
    per_hour: float


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Fit a line through the values after the warm-up; too few of them are an error, not a flat line."""
    begin, end = points[0][0], points[-1][0]
    warm = [point for point in points if point[0] >= begin + WARM_UP * (end - begin)]
    slope = statistics.linear_regression(*zip(*warm, strict=True)).slope
    span = warm[-1][0] - warm[0][0]
    quarter = max(1, len(warm) // 4)
    values = [value for _, value in warm]
    first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
    return Trend(first, last, slope * span, slope * 3600)


@dataclass
class Watch:
    """The samples of some processes."""

    pids: Sequence[int]
    samples: dict[int, list[Sample]] = field(default_factory=dict[int, list[Sample]])

    def look(self, at: float) -> None:
        """Measure every process."""
        for pid in self.pids:
            self.samples.setdefault(pid, []).append(sample(pid, at))

    def memory(self, pid: int) -> Trend:
        """Return the trend of a process's memory."""
        return trend([(one.at, one.mb) for one in self.samples[pid]])

    def descriptors(self, pid: int) -> Trend:
        """Return the trend of a process's descriptors."""
        return trend([(one.at, float(one.descriptors)) for one in self.samples[pid]])

    def grown(self) -> list[str]:
        """Say which process grows beyond what it may."""
        found: list[str] = []
        for pid in self.pids:
            memory, descriptors = self.memory(pid), self.descriptors(pid)
            if memory.added > MOST_MB:
                found.append(f"process {pid} gained {memory.added:.1f} MB after its warm-up")
            if descriptors.added > MOST_DESCRIPTORS:
                found.append(f"process {pid} gained {descriptors.added:.0f} descriptors after its warm-up")
        return found
