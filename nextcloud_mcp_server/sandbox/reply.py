"""Answers in the forms Nextcloud uses: PHP's JSON, the OCS envelope, DAV errors, HTML pages."""

import json
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Literal, cast
from xml.sax.saxutils import escape as escape_xml

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

NO_CACHE = {"Cache-Control": "no-cache, no-store, must-revalidate"}
HTML_TYPE = "text/html; charset=UTF-8"
_XML_TYPE = "application/xml; charset=utf-8"

OCS_OK = 200
OCS_CREATED = 201
OCS_UNAUTHORISED = 997
OCS_UNKNOWN = 998
OCS_BROKEN = 996
_OK_V1 = 100

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; background: #00679e; font: 16px/1.5 system-ui, sans-serif; }}
main {{ box-sizing: border-box; width: min(24rem, calc(100vw - 2rem)); margin: 1rem; padding: 1.5rem; border-radius: 12px; background: Canvas; color: CanvasText; }}
h1 {{ margin: 0 0 .5rem; font-size: 1.35rem; overflow-wrap: anywhere; }}
p {{ overflow-wrap: anywhere; }}
label {{ display: block; margin: .75rem 0 .25rem; }}
input {{ box-sizing: border-box; width: 100%; padding: .6rem; font: inherit; border: 2px solid #767676; border-radius: 8px; }}
button, a.button {{ display: block; box-sizing: border-box; width: 100%; margin-top: 1rem; padding: .7rem; border: 0; border-radius: 8px; background: #00679e; color: #fff; font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; }}
button.quiet {{ background: none; color: inherit; border: 2px solid #767676; }}
</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""  # noqa: E501 - a style sheet reads better in one line per rule


def php_json(value: object) -> str:
    """Write JSON as PHP does: ASCII only, slashes escaped. Etags and lengths depend on it."""
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/")


def json_reply(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON."""
    return Response(
        php_json(value),
        status_code=status,
        media_type="application/json; charset=utf-8",
        headers={**NO_CACHE, **(headers or {})},
    )


def empty_html(status: int) -> Response:
    """Answer as the router does for a path that has no such method."""
    return Response(b"", status_code=status, headers={"Content-Type": HTML_TYPE})


def page(title: str, body: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a page; `body` is HTML, `title` is text."""
    return Response(
        _PAGE.format(title=escape(title), body=body),
        status_code=status,
        headers={"Content-Type": HTML_TYPE, **(headers or {})},
    )


def account_page(title: str, body: str, *, status: int = 200, uid: str | None = None) -> Response:
    """Answer with a page of Nextcloud itself, which names the signed-in user."""
    headers = NO_CACHE if uid is None else {**NO_CACHE, "X-User-Id": uid}
    return page(title, body, status=status, headers=headers)


def forbidden(message: str) -> Response:
    """Answer with the page for a request that is not allowed."""
    return account_page("Access forbidden", f"<h1>Access forbidden</h1><p>{escape(message)}</p>", status=403)


def too_many_requests() -> Response:
    """Answer as a blocked address is answered; there is no Retry-After."""
    return account_page(
        "Too many requests",
        "<h1>Too many requests</h1><p>There were too many requests from your network. Retry later.</p>",
        status=429,
    )


def redirect(url: str, *, uid: str | None = None) -> Response:
    """Redirect the browser."""
    headers = {**NO_CACHE, "Content-Type": HTML_TYPE}
    if uid is not None:
        headers["X-User-Id"] = uid
    return RedirectResponse(url, status_code=303, headers=headers)


def web_server_page(status: HTTPStatus) -> Response:
    """Answer as the web server does for a request that does not reach Nextcloud."""
    title = f"{status.value} {status.phrase}"
    body = (
        f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n"
        f"<center><h1>{title}</h1></center>\r\n<hr><center>nginx</center>\r\n"
        "</body>\r\n</html>\r\n"
    )
    return Response(body, status_code=status, headers={"Content-Type": "text/html"})


def internal_error() -> Response:
    """Answer as Nextcloud does when its code failed: an HTML page."""
    return page(
        "Nextcloud",
        "<h1>Internal Server Error</h1><p>The server was unable to complete your request.</p>",
        status=500,
    )


def maintenance_page() -> Response:
    """Answer as all pages do in maintenance mode."""
    return page(
        "Nextcloud",
        "<h1>Maintenance mode</h1><p>This instance is currently in maintenance mode.</p>",
        status=503,
        headers={"X-Nextcloud-Maintenance-Mode": "1", "Retry-After": "120"},
    )


def dav_error(
    status: int,
    exception: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    hint: str | None = None,
) -> Response:
    """Answer with an error of sabre/dav."""
    namespaces = 'xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns"'
    text = f"<s:message>{escape_xml(message)}</s:message>" if message else "<s:message/>"
    if hint is not None:
        namespaces += ' xmlns:o="http://owncloud.org/ns"'
        text += f'\n  <o:hint xmlns:o="o:">{escape_xml(hint)}</o:hint>'
    body = (
        f'<?xml version="1.0" encoding="utf-8"?>\n<d:error {namespaces}>\n'
        f"  <s:exception>{escape_xml(exception)}</s:exception>\n  {text}\n</d:error>\n"
    )
    return Response(body, status_code=status, headers={"Content-Type": _XML_TYPE, **(headers or {})})


def ocs_reply(
    request: Request,
    data: object = None,
    *,
    code: int = OCS_OK,
    message: str = "OK",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer in the OCS envelope: version 1 hides the status in the body, version 2 maps it."""
    v1 = str(request.path_params.get("version")) == "1"
    ok = code in (OCS_OK, OCS_CREATED)
    meta: dict[str, object] = {
        "status": "ok" if ok else "failure",
        "statuscode": _OK_V1 if ok and v1 else code,
        "message": message,
    }
    if v1:
        meta |= {"totalitems": "", "itemsperpage": ""}
    document: dict[str, object] = {"meta": meta, "data": [] if data is None else data}
    merged = {**NO_CACHE, **(headers or {})}
    status = _http_status(code, v1=v1)
    if ocs_format(request) == "json":
        return json_reply({"ocs": document}, status=status, headers=merged)
    body = f'<?xml version="1.0"?>\n<ocs>\n{_xml_children(document, 1)}</ocs>\n'
    return Response(body, status_code=status, headers={"Content-Type": _XML_TYPE, **merged})


def ocs_format(request: Request) -> Literal["json", "xml"]:
    """Return the requested format; XML is the default."""
    asked = request.query_params.get("format") or request.headers.get("Accept", "")
    return "json" if "json" in asked else "xml"


def _http_status(code: int, *, v1: bool) -> int:
    if code == OCS_UNAUTHORISED:
        return 401
    if v1:
        return 200
    return {OCS_UNKNOWN: 404, OCS_BROKEN: 500}.get(code, code)


def _xml_children(value: object, depth: int) -> str:
    if isinstance(value, dict):
        pairs = list(cast("dict[str, object]", value).items())
    else:
        pairs = [("element", item) for item in cast("list[object]", value)]
    return "".join(_xml_element(key, item, depth) for key, item in pairs)


def _xml_element(name: str, value: object, depth: int) -> str:
    pad = " " * depth
    if name == "$comment":
        return f"{pad}<!--{value}-->\n"
    if value is None or value in ([], {}):
        return f"{pad}<{name}/>\n"
    if isinstance(value, dict | list):
        children = _xml_children(cast("object", value), depth + 1)
        return f"{pad}<{name}>\n{children}{pad}</{name}>\n"
    text = ("1" if value else "") if isinstance(value, bool) else escape_xml(str(value))
    return f"{pad}<{name}>{text}</{name}>\n"
