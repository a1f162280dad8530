"""The OCS API of the Mail app, as version 5.9.3 and an IMAP server answered, or as its source has it."""

import re
from urllib.parse import unquote_plus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.mail.store import MailStore, StoredMailbox, StoredMessage
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_ocs
from nextcloud_mcp_server.sandbox.reply import OCS_BROKEN, OCS_UNKNOWN, ocs_reply

_PATH = re.compile(
    r"(?P<accounts>account/list)|ocs/mailboxes(?:/(?P<mailbox>\d+)/messages)?|message/(?P<message>\d+)"
)
_FLAGS = {"unread": ("seen", False), "read": ("seen", True), "starred": ("flagged", True)}
_MOST = 100
_PARTIAL = 206


class MailApi:
    """Answers below /ocs/v2.php/apps/mail."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/ocs/v{version:int}.php/apps/mail/{path:path}", self._answer, methods=["GET"])]

    @property
    def _store(self) -> MailStore:
        return self._context.state.store(MailStore)

    async def _answer(self, request: Request) -> Response:
        person = self._gate.identify(request, "ocs")
        if isinstance(person, Refusal):
            return refuse_ocs(request, person)
        found = _PATH.fullmatch(request.path_params["path"])
        mine = {one.id for one in self._store.accounts if one.owner == person.user.uid}
        if found is None:
            response = ocs_reply(request, code=OCS_UNKNOWN, message="Invalid query")
        elif found["accounts"]:
            response = ocs_reply(request, self._accounts(mine))
        elif found["message"]:
            response = self._message(request, mine, int(found["message"]))
        elif found["mailbox"]:
            response = self._messages(request, mine, int(found["mailbox"]))
        else:
            response = self._mailboxes(request, mine)
        response.headers["X-User-Id"] = person.user.uid
        return response

    def _accounts(self, mine: set[int]) -> list[dict[str, object]]:
        return [
            {
                "id": one.id,
                "email": one.email,
                "isDelegated": False,
                "aliases": [
                    {"id": place, "email": email, "name": None} for place, email in enumerate(one.aliases, 1)
                ],
            }
            for one in self._store.accounts
            if one.id in mine
        ]

    def _mailboxes(self, request: Request, mine: set[int]) -> Response:
        account = int(request.query_params["accountId"])
        if account not in mine:
            return ocs_reply(request, code=404, message="")
        inside = [box for box in self._store.mailboxes if box.account_id == account]
        return ocs_reply(request, [box.document(self._unread(box)) for box in inside])

    def _unread(self, box: StoredMailbox) -> int:
        return sum(one.mailbox_id == box.id and "seen" not in one.flags for one in self._store.messages)

    def _messages(self, request: Request, mine: set[int], number: int) -> Response:
        box = next((box for box in self._store.mailboxes if box.id == number), None)
        if box is None:
            return ocs_reply(request, code=403, message="")
        # Mail does not catch its exception for another user's message, or for one that it has not fetched.
        if box.account_id not in mine or not box.opened:
            return ocs_reply(request, code=OCS_BROKEN, message="Internal Server Error")
        asked = request.query_params
        before, limit = int(asked.get("cursor", 2**62)), int(asked.get("limit", 0))
        found = [
            one
            for one in self._store.messages
            if one.mailbox_id == number and one.sent_at < before and _matches(one, asked.get("filter", ""))
        ]
        if "body:" in asked.get("filter", "") and not self._text_found(number, asked["filter"]):
            # Then nothing is looked for in the subjects either.
            found = []
        newest = sorted(found, key=lambda one: -one.sent_at)[: min(_MOST, max(1, limit))]
        return ocs_reply(request, [one.stub() for one in newest])

    def _text_found(self, number: int, words: str) -> bool:
        texts = " ".join(word for word in words.split() if word.startswith("body:"))
        return any(one.mailbox_id == number and _matches(one, texts) for one in self._store.messages)

    def _message(self, request: Request, mine: set[int], number: int) -> Response:
        boxes = {box.id for box in self._store.mailboxes if box.account_id in mine}
        one = next((one for one in self._store.messages if one.id == number), None)
        if one is None or one.mailbox_id not in boxes:
            return ocs_reply(request, "Account not found.", code=404, message="")
        if self._store.down:
            sentence = "Could not connect to IMAP server. Please check your logs."
            return ocs_reply(request, sentence, code=500, message="")
        response = ocs_reply(request, one.whole())
        response.status_code = _PARTIAL if one.body is None else response.status_code
        return response


def _matches(one: StoredMessage, words: str) -> bool:
    """Read a filter as `FilterStringParser` does: subject and text are searched together."""
    pairs = [
        (kind, unquote_plus(text).lower()) for kind, _, text in (w.partition(":") for w in words.split())
    ]
    texts = {"subject": one.subject, "body": one.body or "", "from": " ".join(one.sender)}
    either = [text in texts[kind].lower() for kind, text in pairs if kind in {"subject", "body"}]
    every = [text in texts["from"].lower() for kind, text in pairs if kind == "from"]
    every += [
        (name in one.flags) is wanted
        for kind, text in pairs
        if kind == "is"
        for name, wanted in (_FLAGS[text],)
    ]
    return all(every) and (not either or any(either))
