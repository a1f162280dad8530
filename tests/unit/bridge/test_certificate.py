"""A certificate that is not trusted is named, and where an authority of one's own is put."""

import httpx2
import pytest

from nextcloud_mcp_server.bridge.certificate import distrusted

#: As Python 3.11 with OpenSSL 3.0 words them, through httpx2.
SELF_SIGNED = (
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
)
OTHER_NAME = (
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, certificate is not valid for "
    "'localhost'. (_ssl.c:1006)"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SELF_SIGNED, "is not trusted here (self-signed certificate). "),
        (OTHER_NAME, "is not trusted here (Hostname mismatch, certificate is not valid for 'localhost'). "),
        ("[SSL: CERTIFICATE_VERIFY_FAILED]", "is not trusted here. "),
    ],
)
def test_the_reason_of_the_library_and_the_variable_are_named(text: str, reason: str) -> None:
    said = distrusted(httpx2.ConnectError(text))

    assert said is not None
    assert said.startswith(reason)
    assert "SSL_CERT_FILE" in said


@pytest.mark.parametrize("error", [httpx2.ConnectError("Connection refused"), ValueError(SELF_SIGNED)])
def test_another_error_is_not_about_a_certificate(error: Exception) -> None:
    assert distrusted(error) is None
