"""What the configuration of a server says about its authorization."""

import pytest

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.oauth.target import Target, target_of
from nextcloud_mcp_server.errors import ConfigurationError
from tests.authorization_server_fake import SERVER

PORT = "NEXTCLOUD_MCP_CLIENT_OAUTH_PORT"


def server(**config: object) -> Server:
    return Server.model_validate(
        {"id": "example", "transport": "http", "url": SERVER, "oauth": "auto", "oauth_config": config}
    )


def test_every_field_of_the_configuration_is_taken() -> None:
    config = {
        "client_id": "me",
        "client_secret": "the-secret",
        "auth_url": "https://as.example/a",
        "token_url": "https://as.example/t",
        "scopes": ("read", "write"),
        "redirect_port": 8765,
        "metadata_url": "https://as.example/m",
        "client_metadata_url": "https://me.example/c.json",
        "issuer": "https://as.example",
    }

    found = target_of(server(**config))

    assert found == Target(
        server_id="example",
        url=SERVER,
        client_id="me",
        client_secret="the-secret",
        authorization_url="https://as.example/a",
        token_url="https://as.example/t",
        issuer="https://as.example",
        scopes=("read", "write"),
        metadata_url="https://as.example/m",
        client_metadata_url="https://me.example/c.json",
        port=8765,
    )
    assert "the-secret" not in repr(found)


@pytest.mark.parametrize(
    ("option", "variable", "configured", "expected"),
    [
        (1, "2", 3, 1),
        (0, "2", 3, 0),
        (None, "2", 3, 2),
        (None, "", 3, 3),
        (None, "0", 3, 3),
        (None, "", 0, 0),
    ],
)
def test_which_port_the_callback_has(
    option: int | None, variable: str, configured: int, expected: int
) -> None:
    found = target_of(server(redirect_port=configured), {PORT: variable}, port=option)

    assert found.port == expected


@pytest.mark.parametrize("value", ["x", "-1", "65536", "99999999999999", "٣", "80a"])
def test_a_port_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{PORT} must be a port"):
        target_of(server(), {PORT: value})


def test_the_variable_names_the_document_for_all_servers() -> None:
    found = target_of(server(), {"NEXTCLOUD_MCP_CLIENT_METADATA_URL": "https://me.example/c.json"})

    assert found.client_metadata_url == "https://me.example/c.json"
