"""The API 3 of the Forms app, recorded from version 5.3.5; submissions follow its documentation."""

import json
import re
import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.forms.store import FormStore, StoredForm
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, address_of, refuse_ocs
from nextcloud_mcp_server.sandbox.reply import (
    HTML_TYPE,
    NO_CACHE,
    OCS_CREATED,
    OCS_OK,
    OCS_UNKNOWN,
    ocs_reply,
    too_many_requests,
)
from nextcloud_mcp_server.sandbox.throttle import Throttle

_LOCK_SECONDS = 900
_PATH = re.compile(r"(?:/(?P<id>\d+)(?P<part>/questions|/submissions)?)?")

Fields = dict[str, Any]


class FormsApi:
    """Answers below /ocs/v2.php/apps/forms/api/v3/forms."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        # Guesses at forms are counted apart from those at passwords.
        self._throttle = Throttle(context.clock)

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        path = "/ocs/v{version:int}.php/apps/forms/api/v3/forms{path:path}"
        return [Route(path, self._answer, methods=["GET", "POST", "PATCH", "DELETE"])]

    @property
    def _forms(self) -> list[StoredForm]:
        return self._context.state.store(FormStore)

    @property
    def _now(self) -> int:
        return int(self._context.clock().timestamp())

    async def _answer(self, request: Request) -> Response:
        person = self._gate.identify(request, "ocs")
        if isinstance(person, Refusal):
            return refuse_ocs(request, person)
        uid, found = person.user.uid, _PATH.fullmatch(request.path_params["path"])
        sent: Fields = json.loads(await request.body() or b"{}")
        if found is None:
            response = ocs_reply(request, code=OCS_UNKNOWN, message="Invalid query")
        elif found["id"] is None:
            response = self._all(request, uid)
        else:
            response = self._one(request, uid, int(found["id"]), found["part"], sent)
        response.headers["X-User-Id"] = uid
        return response

    def _all(self, request: Request, uid: str) -> Response:
        if request.method == "POST":
            number = max((form.id for form in self._forms), default=0) + 1
            made = StoredForm(number, secrets.token_hex(8), uid, self._now)
            self._forms.append(made)
            return ocs_reply(request, made.whole(uid), code=OCS_CREATED)
        shared = request.query_params.get("type") == "shared"
        newest = sorted(self._forms, key=lambda form: -form.id)
        return ocs_reply(
            request,
            [form.stub(uid) for form in newest if (uid in form.shown_to if shared else form.owner == uid)],
        )

    def _one(self, request: Request, uid: str, number: int, part: str | None, sent: Fields) -> Response:
        if self._throttle.blocks(address_of(request)):
            return too_many_requests()
        form = next((form for form in self._forms if form.id == number), None)
        if form is None or uid not in {form.owner, *form.shown_to}:
            self._throttle.count(address_of(request))
            return Response(b"", 404, {**NO_CACHE, "Content-Type": HTML_TYPE})
        code = OCS_OK
        match request.method, part:
            case "GET", None:
                data: object = form.whole(uid)
            case "GET", "/submissions":
                data = _submissions(form, uid, request)
            case "PATCH", None:
                form.title = sent["keyValuePairs"].get("title", form.title)
                form.state, form.locked_until = 0, self._now + _LOCK_SECONDS
                data = form.id
            case "POST", "/questions":
                data, code = form.ask(sent["type"], sent.get("text", "")), OCS_CREATED
            case "DELETE", None:
                self._forms.remove(form)
                data = form.id
            case _:
                return ocs_reply(request, code=OCS_UNKNOWN, message="Invalid query")
        return ocs_reply(request, data, code=code)


def _submissions(form: StoredForm, uid: str, request: Request) -> Fields:
    asked = request.query_params
    words, offset = asked.get("query", "").casefold(), int(asked.get("offset", 0))
    found = [one for one in form.seen_by(uid) if words in json.dumps(one, ensure_ascii=False).casefold()]
    return {
        "submissions": found[offset:][: int(asked.get("limit", len(found)))],
        "questions": form.questions,
        "filteredSubmissionsCount": len(found),
    }
