"""Every recorded answer with each member in turn missing, null or of another type, to the readers that read it."""

from collections.abc import Iterator

import pytest
import stamina

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.result import Result
from tests.contract.odd_answers import kind_of, odd_bodies
from tests.contract.odd_readings import NOT_READ, READINGS, Answering, Person, Reading
from tests.contract.recording import all_names, load

#: How many other values each member gets, of those there are; the whole list takes some minutes.
EACH = 1
READABLE = [name for name in all_names() if kind_of(load(name))]

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=1):
        yield


def readings(name: str) -> list[Reading]:
    return [reading for reading in READINGS if reading.holds(name)]


def test_every_recording_with_a_readable_body_has_a_reader_or_a_reason() -> None:
    without = [name for name in READABLE if not readings(name)]

    assert without == sorted(NOT_READ)
    assert all(NOT_READ.values())


@pytest.mark.parametrize("name", [name for name in READABLE if name not in NOT_READ])
async def test_an_odd_answer_is_read_soundly_or_refused_in_words(name: str) -> None:
    recording = load(name)
    faults: list[str] = []
    for turn, reading in enumerate(readings(name)):
        answering = Answering(recording, reading.beside, reading.at)
        person = Person.over(answering)
        async with person.pool:
            good = [("as it was", recording.text.encode())]
            for change, answering.body in (*good, *odd_bodies(recording, each=EACH, turn=turn)):
                fault = await fault_of(reading, person)
                faults += [f"{change}: {fault}"] if fault else []
        asked = answering.asked
        assert asked, f"nothing asked for it: {reading.recordings}"

    assert not faults, f"{len(faults)} faults, such as\n" + "\n".join(faults[:10])


async def fault_of(reading: Reading, person: Person) -> str:
    """Read once; give what should not have happened."""
    try:
        found = await reading.read(person)
        if isinstance(found, Result):
            answer.result(found)
    except NextcloudMcpError as error:
        return "" if str(error).strip() else f"{type(error).__name__} without a sentence"
    except Exception as error:  # noqa: BLE001 - each is a fault, and all are told together
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        where = "" if frame is None else f" at {frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"
        return f"{type(error).__name__}: {error!s:.200}{where}"
    return ""
