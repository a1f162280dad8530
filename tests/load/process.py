"""The memory and processor time of a server's processes, read from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")


def is_readable() -> bool:
    """Tell whether this system has /proc (Linux does)."""
    return (_PROC / "self" / "status").is_file()


def is_alive(pid: int) -> bool:
    """Tell whether there is such a process."""
    return (_PROC / str(pid)).exists()


def resident_mb(pid: int) -> float:
    """Return the memory of a process and its descendants."""
    return sum(_status_mb(each, "VmRSS") for each in _tree(pid))


def peak_mb(pid: int) -> float:
    """Return the peak memory of a process and its descendants since `forget_peak`."""
    return sum(_status_mb(each, "VmHWM") for each in _tree(pid))


def forget_peak(pid: int) -> None:
    """Reset the peak memory (proc(5), clear_refs: 5)."""
    for each in _tree(pid):
        (_PROC / str(each) / "clear_refs").write_text("5")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its descendants so far."""
    ticks = 0
    for each in _tree(pid):
        fields = (_PROC / str(each) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name in brackets may contain anything, so the fields are counted from its end.
        yield int(stat.parent.name), int(text.rpartition(")")[2].split()[1])


def _status_mb(pid: int, name: str) -> float:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))
