"""Small pictures of large ones, as core/Controller/PreviewController.php of 32.0.1 answers."""

import base64

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_json
from nextcloud_mcp_server.sandbox.reply import json_reply
from nextcloud_mcp_server.sandbox.state import User

#: Every preview here is one grey pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Previews:
    """Answers /core/preview."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/core/preview", self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> Response:
        found = self._gate.identify(request, "other")
        if isinstance(found, Refusal):
            return refuse_json(found)
        response = _preview(request, found.user)
        response.headers["X-User-Id"] = found.user.uid
        return response


def _preview(request: Request, user: User) -> Response:
    query = request.query_params
    numbers = [query.get(name, default) for name, default in (("fileId", "-1"), ("x", "32"), ("y", "32"))]
    if not all(number.lstrip("-").isdigit() for number in numbers) or "-1" in numbers[:1] or "0" in numbers:
        return json_reply([], status=400)
    node = user.files.find_by_id(int(numbers[0]))
    if node is None or not node.mime.startswith("image/"):
        return json_reply([], status=404)
    headers = {"Cache-Control": "private, max-age=86400, immutable"}
    return Response(PIXEL, media_type="image/png", headers=headers)
