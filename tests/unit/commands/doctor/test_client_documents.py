"""What `doctor` says about the documents that describe chat clients."""

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.commands.doctor.client_documents import KNOWN, look_at_documents
from nextcloud_mcp_server.settings.environment import Settings, load
from tests.clients_fixtures import Internet, Said, json_said

CLAUDE, CODEX, _ = KNOWN


def settings(**overrides: object) -> Settings:
    return load(
        mode="builtin",
        nextcloud_host="https://cloud.example.org",
        nextcloud_mcp_server_url="https://mcp.example.org",
        token_encryption_keys="a-key",
        nextcloud_oauth_client_id="a",
        nextcloud_oauth_client_secret="b",
        **overrides,
    )


async def looked(internet: Internet, **overrides: object) -> Finding:
    async with internet.open() as client:
        return await look_at_documents(settings(**overrides), client)


async def test_a_document_that_can_be_read_is_fine() -> None:
    internet = Internet()
    internet.put(CLAUDE, {})

    found = await looked(internet)

    assert (found.verdict, found.topic) == (Verdict.OK, "client documents")
    assert found.text == f"{CLAUDE} was read, directly"


async def test_a_document_that_comes_through_the_proxy_is_said_to() -> None:
    internet = Internet()
    internet.put(CLAUDE, {})

    found = await looked(internet, client_metadata_proxy=SecretStr("http://proxy.example.org:3128"))

    assert found.text.endswith("through CLIENT_METADATA_PROXY")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx2.ConnectError("no route"), "cannot be reached"),
        (httpx2.ConnectTimeout("silent"), "did not come in time"),
    ],
)
@pytest.mark.parametrize(
    ("overrides", "advice"),
    [
        ({}, "or name an HTTP proxy in CLIENT_METADATA_PROXY"),
        (
            {"client_metadata_proxy": SecretStr("http://proxy.example.org")},
            "or correct CLIENT_METADATA_PROXY",
        ),
    ],
)
async def test_a_server_without_a_way_to_the_internet_is_told_the_three_ways_out(
    answer: Exception, words: str, overrides: dict[str, object], advice: str
) -> None:
    internet = Internet(answers={CLAUDE: answer})

    found = await looked(internet, **overrides)

    assert found.verdict is Verdict.WARN
    assert f"{CLAUDE} {words}" in found.text
    assert "let this server connect to claude.ai on port 443" in found.text
    assert advice in found.text
    assert "CLIENT_METADATA_DOCUMENTS=false" in found.text


async def test_a_name_that_leads_into_the_own_network_is_said_to() -> None:
    found = await looked(Internet(names={"claude.ai": ["10.0.0.1"]}))

    assert found.verdict is Verdict.WARN
    assert "an address that is not public" in found.text


@pytest.mark.parametrize("answer", [Said(404), Said(503), json_said(b"not json")])
async def test_what_answers_otherwise_may_be_a_proxy(answer: Said) -> None:
    found = await looked(Internet(answers={CLAUDE: answer}))

    assert found.verdict is Verdict.WARN
    assert "If a proxy answers in its place" in found.text


async def test_a_client_that_the_settings_let_in_is_tried() -> None:
    internet = Internet()
    internet.put(CODEX, {})

    found = await looked(internet, denied_clients="claude.ai")

    assert found.text.startswith(CODEX)


async def test_nothing_is_asked_where_no_known_client_is_allowed_or_documents_are_off() -> None:
    internet = Internet()

    found = [
        await looked(internet, allowed_clients="app.example.org"),
        await looked(internet, client_metadata_documents="false"),
    ]

    assert [one.verdict for one in found] == [Verdict.OK, Verdict.OK]
    assert "CLIENT_METADATA_DOCUMENTS=false" in found[1].text
    assert internet.asked == []
