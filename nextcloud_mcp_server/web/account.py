"""The page on which a person sees, changes and ends what they have connected."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.auth.visit import AccountView, ClientView, RecentAction, SignedInClient
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import SignedIn
from nextcloud_mcp_server.web.forms import single
from nextcloud_mcp_server.web.moment import Moment
from nextcloud_mcp_server.web.pages import Name, in_order, page, says
from nextcloud_mcp_server.web.visitor import ACCOUNT, Visitor, our_form, require_check, see

_LONGEST_CLIENT_ID = 2_048
#: How long a client is named as new.
_NEW = timedelta(days=7)
_LOOKING = frozenset({"get", "list", "search", "read", "check"})
#: What a page may be told to say once.
TOLD = frozenset({
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


@dataclass(frozen=True, slots=True)
class Line:
    """One thing a client did: a key of the catalogue, or the name of a tool it does not know."""

    sentence: str
    name: Name
    moment: Moment
    looking: bool
    worked: bool

    @classmethod
    def of(cls, recent: RecentAction, *, now: datetime) -> "Line":
        """Find the words for an action."""
        sentence = f"action.{recent.action}"
        return cls(
            sentence=sentence if says(sentence) else "",
            name=Name.of(recent.action),
            moment=Moment.of(recent.at, now=now),
            looking=not _LOOKING.isdisjoint(recent.action.split("_")),
            worked=recent.result == "ok",
        )


@dataclass(frozen=True, slots=True)
class Card:
    """One client. `label` is its id, shown where two clients go by the same name."""

    id: str
    name: Name
    label: Name
    since: Moment
    used: Moment | None
    reading: Sequence[str]
    changing: Sequence[str]
    allowed: Collection[str]
    paused: bool
    recent: Sequence[Line]

    @classmethod
    def of(cls, client: ClientView, *, now: datetime, alone: bool) -> "Card":
        """Prepare what the page shows."""
        shown = client.offered | client.scopes
        return cls(
            id=client.client_id,
            name=Name.of(client.name),
            label=Name("" if alone else Name.of(client.client_id).plain),
            since=Moment.of(client.granted_at, now=now),
            used=Moment.of(client.last_used_at, now=now) if client.last_used_at else None,
            reading=in_order(shown, writing=False),
            changing=in_order(shown, writing=True),
            allowed=in_order(client.scopes),
            paused=client.paused,
            # What else is written down, such as a consent, has no underscore: it is nothing the app did.
            recent=[Line.of(recent, now=now) for recent in client.recent if "_" in recent.action],
        )


@dataclass(frozen=True, slots=True)
class SignedInApp:
    """One client that can reach us in the person's name."""

    id: str
    name: Name
    label: Name
    since: Moment
    used: Moment

    @classmethod
    def of(cls, client: SignedInClient, *, now: datetime, alone: bool) -> "SignedInApp":
        """Prepare what the page shows."""
        return cls(
            id=client.client_id,
            name=Name.of(client.name),
            label=Name("" if alone else Name.of(client.client_id).plain),
            since=Moment.of(client.since, now=now),
            used=Moment.of(client.last_used_at, now=now),
        )


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One client that was signed out because two may have held what it was given."""

    name: Name
    moment: Moment


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser in which the person is signed in; `here` is the one that asks."""

    id: str
    place: Name
    since: Moment
    used: Moment
    here: bool


class AccountPages:
    """The handlers. Whatever is changed is changed by a form of this page, in this session."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    async def show(self, visitor: Visitor, who: SignedIn) -> Response:
        """Show everything that is connected."""
        view = await visitor.visits.account(who)
        cards = self._cards(view)
        response = page(
            visitor.request.headers,
            "account.html",
            csrf=visitor.cookies.form_check(ACCOUNT),
            person=visitor.name,
            uid=Name.of(view.uid or ""),
            host=Name.of_host(view.nextcloud_host),
            needs_reauth=view.needs_reauth,
            cards=cards,
            apps=self._apps(view),
            alerts=[
                AlertLine(Name.of(one.client_name), Moment.of(one.at, now=self._clock()))
                for one in view.alerts
            ],
            browsers=await self._browsers(visitor, who),
            fresh=[card for card in cards if card.since.at > self._clock() - _NEW],
            told=_told(visitor),
        )
        visitor.cookies.end_told(response)
        return response

    async def _browsers(self, visitor: Visitor, who: SignedIn) -> list[Browser]:
        now, here = self._clock(), hash_of(visitor.cookies.session)
        return [
            Browser(
                one.id,
                Name.of(one.place),
                Moment.of(one.created_at, now=now),
                Moment.of(one.last_used_at, now=now),
                one.id == here,
            )
            for one in await visitor.visits.sign_ins(who)
        ]

    async def end_sign_in(self, visitor: Visitor, who: SignedIn) -> Response:
        """Sign the person out in one browser."""
        form = await self._form(visitor)
        chosen = single(form.get("browser", [])) or ""
        if chosen == hash_of(visitor.cookies.session):
            await visitor.visits.sign_out(visitor.cookies.session)
            response = _back(visitor, "signed_out")
            visitor.cookies.end_session(response)
            return response
        await visitor.visits.end_sign_in(who, chosen)
        return _back(visitor, "browser_out")

    async def ask_to_sign_in(self, visitor: Visitor) -> Response:
        """Show the way in to who is not signed in."""
        response = page(visitor.request.headers, "account_sign_in.html", told=_told(visitor))
        visitor.cookies.end_told(response)
        return response

    async def change_client(self, visitor: Visitor, who: SignedIn) -> Response:
        """Change, pause or end what one client may do."""
        form = await self._form(visitor)
        client_id = _client_of(form)
        match single(form.get("do", [])):
            case "save":
                scopes = frozenset(form.get("allow", ())).intersection(SCOPES)
                await visitor.visits.set_scopes(who, client_id, scopes)
                return _back(visitor, "saved")
            case "pause":
                await visitor.visits.pause(who, client_id, paused=True)
                return _back(visitor, "paused")
            case "resume":
                await visitor.visits.pause(who, client_id, paused=False)
                return _back(visitor, "resumed")
            case "remove":
                await visitor.visits.remove(who, client_id)
                return _back(visitor, "removed")
            case _:
                # Enter in a switch presses the first button, which changes nothing.
                return see(ACCOUNT)

    async def sign_out_client(self, visitor: Visitor, who: SignedIn) -> Response:
        """Have one client sign in again."""
        form = await self._form(visitor)
        await visitor.visits.sign_out_client(who, _client_of(form))
        return _back(visitor, "client_out")

    async def disconnect(self, visitor: Visitor, who: SignedIn) -> Response:
        """End everything, here and at Nextcloud."""
        await self._form(visitor)
        at_nextcloud = await visitor.visits.disconnect(who)
        return _back(visitor, "disconnected" if at_nextcloud else "disconnected_here")

    async def sign_out(self, visitor: Visitor, who: SignedIn) -> Response:
        """End this session."""
        del who
        await self._form(visitor)
        await visitor.visits.sign_out(visitor.cookies.session)
        response = _back(visitor, "signed_out")
        visitor.cookies.end_session(response)
        return response

    async def sign_out_everywhere(self, visitor: Visitor, who: SignedIn) -> Response:
        """End every session of this person."""
        await self._form(visitor)
        await visitor.visits.sign_out_everywhere(who)
        response = _back(visitor, "signed_out_everywhere")
        visitor.cookies.end_session(response)
        return response

    async def answer_signed_out(self, visitor: Visitor) -> Response:
        """Send who was signed out meanwhile to sign in again; nothing of the form counts."""
        await our_form(visitor)
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

    async def _form(self, visitor: Visitor) -> dict[str, list[str]]:
        visitor.request.state.retry = ACCOUNT
        form = await our_form(visitor)
        require_check(visitor, form, ACCOUNT)
        return form


def _client_of(form: dict[str, list[str]]) -> str:
    client_id = single(form.get("client", []))
    if client_id is None or not 0 < len(client_id) <= _LONGEST_CLIENT_ID:
        raise InvalidInput("The form names no app.")
    return client_id


def _told(visitor: Visitor) -> str:
    return visitor.cookies.told if visitor.cookies.told in TOLD else ""


def _back(visitor: Visitor, told: str) -> Response:
    response = see(ACCOUNT)
    visitor.cookies.tell(response, told)
    return response
