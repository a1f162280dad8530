"""The account page, on which a user sees, changes and ends what they have connected."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from nextcloud_mcp_server.auth.consent.views import AccountView, ClientView, RecentAction, SignedInClient
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import SignedIn
from nextcloud_mcp_server.web.access_rows import Row, rows_of, scopes_in
from nextcloud_mcp_server.web.forms import single
from nextcloud_mcp_server.web.pages import Name, page, says
from nextcloud_mcp_server.web.relative_time import RelativeTime
from nextcloud_mcp_server.web.request_context import ACCOUNT, RequestContext, our_form, require_check, see

_LONGEST_CLIENT_ID = 2_048
#: How long a client is shown as new.
_NEW = timedelta(days=7)
_LOOKING = frozenset({"get", "list", "search", "fetch", "read", "check"})
#: The messages that the next page may show once, each of a success; only `UNFINISHED` ones need care.
MESSAGES = frozenset({
    "saved",
    "paused",
    "resumed",
    "removed",
    "client_out",
    "disconnected",
    "disconnected_here",
    "browser_out",
    "signed_out",
    "signed_out_everywhere",
})  # fmt: skip
UNFINISHED = frozenset({"disconnected_here"})


@dataclass(frozen=True, slots=True)
class Line:
    """One action of a client: a key of the catalogue, or a tool's name that the catalogue does not have."""

    sentence: str
    name: Name
    object_name: Name
    moment: RelativeTime
    looking: bool
    worked: bool

    @classmethod
    def of(cls, recent: RecentAction, *, now: datetime) -> "Line":
        """Choose the words for an action."""
        sentence = f"action.{recent.action}"
        return cls(
            sentence=sentence if says(sentence) else "",
            name=Name.of(recent.action),
            # A file keeps its hidden characters; they are shown, not left out.
            object_name=Name.of(escape_hidden(recent.object_name)),
            moment=RelativeTime.of(recent.at, now=now),
            looking=not _LOOKING.isdisjoint(recent.action.split("_")),
            worked=recent.result == "ok",
        )


@dataclass(frozen=True, slots=True)
class Card:
    """One client. `label` is its id, shown if two clients have the same name."""

    id: str
    name: Name
    label: Name
    since: RelativeTime
    used: RelativeTime | None
    rows: Sequence[Row]
    more: Sequence[Row]
    paused: bool
    recent: Sequence[Line]
    logo: str = ""

    @classmethod
    def of(cls, client: ClientView, *, now: datetime, alone: bool) -> "Card":
        """Build the card of a client."""
        rows = rows_of(client.offered | client.scopes, chosen=client.scopes)
        # Other audit entries, such as a consent, are no action of the client. Their names have no underscore, as those
        # of a few tools have none.
        recent = [one for one in client.recent if "_" in one.action or says(f"action.{one.action}")]
        used = max((*filter(None, [client.last_used_at]), *(one.at for one in recent)), default=None)
        return cls(
            id=client.client_id,
            name=Name.of(client.name),
            label=Name("" if alone else Name.of(client.client_id).plain),
            since=RelativeTime.of(client.granted_at, now=now),
            used=RelativeTime.of(used, now=now) if used else None,
            rows=[row for row in rows if row.chosen],
            more=[row for row in rows if not row.chosen],
            paused=client.paused,
            recent=[Line.of(one, now=now) for one in recent],
            logo="" if client.logo is None else client.logo.data_uri,
        )


@dataclass(frozen=True, slots=True)
class SignedInApp:
    """One client with tokens that let it call this server in the user's name."""

    id: str
    name: Name
    label: Name
    since: RelativeTime
    used: RelativeTime

    @classmethod
    def of(cls, client: SignedInClient, *, now: datetime, alone: bool) -> "SignedInApp":
        """Build the line of a signed-in client."""
        return cls(
            id=client.client_id,
            name=Name.of(client.name),
            label=Name("" if alone else Name.of(client.client_id).plain),
            since=RelativeTime.of(client.since, now=now),
            used=RelativeTime.of(client.last_used_at, now=now),
        )


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One client that was signed out because two parties may have had its code or token."""

    name: Name
    moment: RelativeTime


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser in which the user is signed in; `here` marks the one that requests the page."""

    id: str
    place: Name
    since: RelativeTime
    used: RelativeTime
    here: bool


class AccountPages:
    """The handlers. Every change needs a form of this page, in this browser session."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    async def show(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the account page."""
        view = await context.consent_service.account(who)
        cards = self._cards(view)
        response = page(
            context.request.headers,
            "account.html",
            csrf=context.cookies.form_check(ACCOUNT),
            person=context.name,
            uid=Name.of(view.uid or ""),
            host=Name.of_host(view.nextcloud_host),
            needs_reauth=view.needs_reauth,
            cards=cards,
            apps=self._apps(view),
            alerts=[
                AlertLine(Name.of(one.client_name), RelativeTime.of(one.at, now=self._clock()))
                for one in view.alerts
            ],
            browsers=await self._browsers(context, who),
            fresh=[card for card in cards if card.since.at > self._clock() - _NEW],
            message=_message(context),
            unfinished=UNFINISHED,
        )
        context.cookies.clear_message(response)
        return response

    async def _browsers(self, context: RequestContext, who: SignedIn) -> list[Browser]:
        now, here = self._clock(), hash_of(context.cookies.session)
        return [
            Browser(
                one.id,
                Name.of(one.place),
                RelativeTime.of(one.created_at, now=now),
                RelativeTime.of(one.last_used_at, now=now),
                one.id == here,
            )
            for one in await context.consent_service.sign_ins(who)
        ]

    async def end_sign_in(self, context: RequestContext, who: SignedIn) -> Response:
        """End one of the user's browser sessions."""
        form = await self._form(context)
        chosen = single(form.get("browser", [])) or ""
        if chosen == hash_of(context.cookies.session):
            await context.consent_service.sign_out(context.cookies.session)
            response = _back(context, "signed_out")
            context.cookies.end_session(response)
            return response
        await context.consent_service.end_sign_in(who, chosen)
        return _back(context, "browser_out")

    async def ask_to_sign_in(self, context: RequestContext) -> Response:
        """Render the page that asks for a sign-in."""
        response = page(context.request.headers, "account_sign_in.html", message=_message(context))
        context.cookies.clear_message(response)
        return response

    async def change_client(self, context: RequestContext, who: SignedIn) -> Response:
        """Change, pause or end what one client may do."""
        form = await self._form(context)
        client_id = _client_of(form)
        match single(form.get("do", [])):
            case "save":
                scopes = scopes_in(form, frozenset(SCOPES))
                await context.consent_service.set_scopes(who, client_id, scopes)
                return _back(context, "saved")
            case "pause":
                await context.consent_service.pause(who, client_id, paused=True)
                return _back(context, "paused")
            case "resume":
                await context.consent_service.pause(who, client_id, paused=False)
                return _back(context, "resumed")
            case "remove":
                await context.consent_service.remove(who, client_id)
                return _back(context, "removed")
            case _:
                # The Enter key in a choice presses the first button, which changes nothing.
                return see(ACCOUNT)

    async def sign_out_client(self, context: RequestContext, who: SignedIn) -> Response:
        """End the tokens of one client, so that it must sign in again."""
        form = await self._form(context)
        await context.consent_service.sign_out_client(who, _client_of(form))
        return _back(context, "client_out")

    async def disconnect(self, context: RequestContext, who: SignedIn) -> Response:
        """End the user's whole connection, here and at Nextcloud."""
        await self._form(context)
        at_nextcloud = await context.consent_service.disconnect(who)
        return _back(context, "disconnected" if at_nextcloud else "disconnected_here")

    async def sign_out(self, context: RequestContext, who: SignedIn) -> Response:
        """End this browser session."""
        del who
        await self._form(context)
        await context.consent_service.sign_out(context.cookies.session)
        response = _back(context, "signed_out")
        context.cookies.end_session(response)
        return response

    async def sign_out_everywhere(self, context: RequestContext, who: SignedIn) -> Response:
        """End all browser sessions of this user."""
        await self._form(context)
        await context.consent_service.sign_out_everywhere(who)
        response = _back(context, "signed_out_everywhere")
        context.cookies.end_session(response)
        return response

    async def answer_signed_out(self, context: RequestContext) -> Response:
        """Redirect a form to the sign-in if its session has ended; nothing of the form is used."""
        await our_form(context)
        return see(ACCOUNT)

    def _cards(self, view: AccountView) -> list[Card]:
        names = Counter(Name.of(client.name) for client in view.clients)
        now = self._clock()
        return [Card.of(client, now=now, alone=names[Name.of(client.name)] == 1) for client in view.clients]

    def _apps(self, view: AccountView) -> list[SignedInApp]:
        names = Counter(Name.of(client.name) for client in view.signed_in)
        now = self._clock()
        return [
            SignedInApp.of(client, now=now, alone=names[Name.of(client.name)] == 1)
            for client in view.signed_in
        ]

    async def _form(self, context: RequestContext) -> dict[str, list[str]]:
        context.request.state.retry = ACCOUNT
        form = await our_form(context)
        require_check(context, form, ACCOUNT)
        return form


def _client_of(form: dict[str, list[str]]) -> str:
    client_id = single(form.get("client", []))
    if client_id is None or not 0 < len(client_id) <= _LONGEST_CLIENT_ID:
        raise InvalidInput("The form names no app.")
    return client_id


def _message(context: RequestContext) -> str:
    return context.cookies.message if context.cookies.message in MESSAGES else ""


def _back(context: RequestContext, message: str) -> Response:
    response = see(ACCOUNT)
    context.cookies.set_message(response, message)
    return response
