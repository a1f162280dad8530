"""Grants by server and issuer, in whichever place the user has."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import keyring
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.bridge.oauth import store as store_module
from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed
from nextcloud_mcp_server.bridge.oauth.store import TokenStore, open_store
from nextcloud_mcp_server.bridge.oauth.token_file import FileVault
from nextcloud_mcp_server.errors import ConfigurationError
from tests.authorization_server_fake import ISSUER, SERVER
from tests.unit.bridge.oauth.test_keyring_vault import Keyring
from tests.unit.bridge.oauth.test_tokens import GRANT

OTHER = GRANT.model_copy(update={"issuer": "https://other.example", "access_token": SecretStr("other")})


@pytest.fixture(params=["keyring", "file", "encrypted file"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenStore:
    backend = Keyring()
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
    environment = {"NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": request.param.rpartition(" ")[2]}
    if request.param == "encrypted file":
        environment["NEXTCLOUD_MCP_CLIENT_PASSPHRASE"] = "correct horse"
    return open_store(environment, tmp_path)


async def test_a_grant_comes_back_for_its_server_and_issuer_alone(store: TokenStore) -> None:
    await store.save(SERVER, GRANT)
    await store.save(SERVER, OTHER)
    await store.save("https://second.example/mcp", GRANT)

    assert await store.load(SERVER) == OTHER
    assert await store.load(SERVER, ISSUER) == GRANT
    assert await store.load(SERVER, "https://third.example") is None
    assert await store.load("https://mcp.example/other") is None
    # RFC 3986 §6.2.2: the same server.
    assert await store.load("HTTPS://MCP.example/mcp") == OTHER

    removed = await store.remove(SERVER)

    assert {one.issuer for one in removed} == {GRANT.issuer, OTHER.issuer}
    assert await store.load(SERVER) is None
    assert await store.remove(SERVER) == []
    assert await store.load("https://second.example/mcp") == GRANT


@dataclass
class Texts:
    """A vault in memory."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    hangs: bool = False

    @property
    def place(self) -> str:
        return "The vault"

    def read(self, name: str) -> str | None:
        if self.hangs:
            threading.Event().wait(2)
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text

    def remove(self, name: str) -> None:
        self.texts.pop(name, None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"current": 1}', '{"current": "x", "grants": {"x": {}}}'])
async def test_a_record_that_is_none_means_a_new_sign_in(tmp_path: Path, text: str) -> None:
    vault = Texts({SERVER: text})
    store = TokenStore(vault, tmp_path)

    assert await store.load(SERVER) is None
    await store.save(SERVER, GRANT)
    assert await store.load(SERVER) == GRANT


async def test_a_keyring_that_waits_for_the_user_does_not_hang_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_VAULT_SECONDS", 0.1)

    with pytest.raises(TokenStoreFailed, match="The vault does not answer"):
        await TokenStore(Texts(hangs=True), tmp_path).load(SERVER)


def test_the_keyring_comes_first_and_the_file_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    assert open_store({}, tmp_path).place == "The keyring of this computer"

    monkeypatch.setattr(keyring, "get_keyring", lambda: Keyring(priority=0))
    assert open_store({}, tmp_path).place == str(tmp_path / "client-tokens.json")
    assert (
        open_store({"NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": "file"}, tmp_path).place
        == FileVault(tmp_path / "client-tokens.json").place
    )


@pytest.mark.parametrize(
    ("value", "sentence"), [("keyring", "there is no keyring"), ("vault", "must be auto")]
)
def test_a_store_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", lambda: Keyring(priority=0))

    with pytest.raises(ConfigurationError, match=sentence):
        open_store({"NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": value}, tmp_path)
