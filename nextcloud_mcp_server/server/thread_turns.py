"""Lets the thread that serves have its turn soon while another thread works on long texts.

Threads of one process run Python in turns. A thread whose turn has not come waits 5 ms by default before the running
one must stop, and a call has many turns: one after each read from a connection. While one user's texts were worked on,
ten exchanges over a connection took 180 ms instead of 0.5; with turns of 50 µs they take 3 ms. The work itself takes as
long as before, and without such work nothing changes, since then no thread waits.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

#: Less brings little; the waiting thread looks again after each interval.
SECONDS: Final = 0.00005


@contextmanager
def shortened() -> Generator[None]:
    """Keep the turns of all threads short while the block runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
