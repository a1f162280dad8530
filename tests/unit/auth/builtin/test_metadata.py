import pytest

from nextcloud_mcp_server.auth.builtin.metadata import KEYS, KEYS_PATH, server_metadata

ISSUER = "https://mcp.example.org"


def test_the_issuer_is_repeated_byte_by_byte() -> None:
    described = server_metadata(ISSUER, scopes={"notes:write", "notes:read"})

    assert described["issuer"] == ISSUER
    assert described["scopes_supported"] == ["notes:read", "notes:write"]
    assert described["code_challenge_methods_supported"] == ["S256"]
    assert described["authorization_response_iss_parameter_supported"] is True
    assert [
        described[f"{name}_endpoint"] for name in ("authorization", "token", "registration", "revocation")
    ] == [f"{ISSUER}/{path}" for path in ("authorize", "token", "register", "revoke")]
    assert None not in described.values()


@pytest.mark.parametrize("documents", [True, False])
def test_documents_are_offered_together_with_public_clients(*, documents: bool) -> None:
    described = server_metadata(ISSUER, documents=documents)

    assert described["client_id_metadata_document_supported"] is documents
    assert "none" in described["token_endpoint_auth_methods_supported"]


def test_openid_clients_find_what_they_insist_on() -> None:
    plain, openid = server_metadata(ISSUER), server_metadata(ISSUER, openid=True)

    assert set(openid) - set(plain) == {
        "jwks_uri",
        "subject_types_supported",
        "id_token_signing_alg_values_supported",
    }
    assert plain.items() <= openid.items()
    assert openid["jwks_uri"] == f"{ISSUER}{KEYS_PATH}"
    assert KEYS == {"keys": []}


def test_an_issuer_with_a_slash_at_its_end_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="slash"):
        server_metadata(f"{ISSUER}/")
