from threading import get_ident

import httpx2
import pytest
from pydantic import TypeAdapter

from nextcloud_mcp_server.nextcloud import decoding


@pytest.mark.parametrize(("length", "is_here"), [(10, True), (200_000, False)])
async def test_only_a_large_response_is_parsed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, length: int, *, is_here: bool
) -> None:
    threads = list[int]()
    decoded = decoding.decoded

    def watched(response: httpx2.Response, kind: TypeAdapter[str]) -> str:
        threads.append(get_ident())
        return decoded(response, kind)

    monkeypatch.setattr(decoding, "decoded", watched)
    response = httpx2.Response(200, json="x" * length)

    assert await decoding.decoded_aside(response, TypeAdapter(str), uid="alice") == "x" * length
    assert [each == get_ident() for each in threads] == [is_here]
