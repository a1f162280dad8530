"""What to say about a server whose certificate this computer does not trust."""

from typing import Final

import httpx2

from nextcloud_mcp_server.logs import one_line

#: The library that checks certificates reads the file of this variable in place of the system's authorities.
_ADVICE: Final = (
    "If it comes from an authority of your own, name a PEM file with that authority, and with all others that this "
    "program needs, in the variable SSL_CERT_FILE; else ask the operator of the server."
)
_VERIFY_FAILED: Final = "CERTIFICATE_VERIFY_FAILED"


def distrusted(error: Exception) -> str | None:
    """Return the end of a sentence about a certificate that is not trusted, and what to do; None for other errors."""
    text = str(error)
    if not isinstance(error, httpx2.TransportError) or _VERIFY_FAILED not in text:
        return None
    # OpenSSL's reason: "… certificate verify failed: self-signed certificate (_ssl.c:1006)".
    reason = one_line(text.partition("verify failed:")[2].partition(" (_ssl")[0].strip().rstrip("."))
    return f"is not trusted here{f' ({reason})' if reason else ''}. {_ADVICE}"
