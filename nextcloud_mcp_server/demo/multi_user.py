"""Two users on one server: each connects a Nextcloud account, and neither can access the other's."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

import anyio
import httpx2

from nextcloud_mcp_server.demo.answers import STEP_ERRORS, expect, fields, reason, result_of, words
from nextcloud_mcp_server.demo.dialect import DIALECTS, Ask, Name
from nextcloud_mcp_server.demo.member import NOTES, Member
from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.oauth_client import Found, OAuthClient, claims_of
from nextcloud_mcp_server.demo.page_narrator import PageNarrator
from nextcloud_mcp_server.demo.servers import (
    ASSISTANT,
    BuiltinServers,
    MultiUserServers,
    open_builtin_servers,
    open_multi_user_servers,
)
from nextcloud_mcp_server.demo.wire_client import Message
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName

Mode = Literal["oidc", "builtin"]

_CREATE = "nc_notes_create_note"
_NEW_NOTE: Message = {"title": "Birthday gifts", "content": "A book for Bob."}
_CLIENT_NAME = "Demo assistant"
_NOTE = "nc_notes_get_note"
_REVOKE = "revoke_nextcloud_access"
_AT_MOST_SECONDS = 120
_CALL_SECONDS = 330
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_MOST_LOOKS, _LOOK_SECONDS = 100, 0.05


@dataclass(slots=True)
class Pair:
    """Alice and Bob on one server, with the checks that are independent of the sign-in."""

    servers: MultiUserServers | BuiltinServers
    narrator: Narrator
    alice: Member
    bob: Member

    def asked(self, member: Member, answer: Message) -> Ask:
        """Show the server's question; raise if the response has none."""
        member.dialect.show(f"← {member.dialect.asked_by}", answer)
        ask = member.dialect.asks(answer)
        if ask is None:
            raise NotAsPromised("the server did not ask for consent.")
        return ask

    async def refuse_bob(self, ask: Ask, tool: str, arguments: Message) -> None:
        """Let Bob open the link that Alice's client received for this tool call."""
        self.narrator.step("Bob opens Alice's link")
        self.narrator.say("Another person sent it to him. He signs in as himself:")
        before = self.connected()
        self.bob.pages.begin(())
        page = await self.bob.person.consent(ask.url)
        expect(page.status == _FORBIDDEN, f"Bob came as far as the page “{page.title}”")
        await self.lists_only(before)
        async with self.narrator.waiting(
            "Alice's assistant calls again; the server may hold the call for a while"
        ):
            again = await self.alice.send(tool, arguments)
        expect(self.alice.dialect.asks_still(again), "Alice's assistant got what she had not allowed")
        self.narrator.done("Refused: a link is for the person whose assistant asked. Nothing was connected.")

    def connected(self) -> list[str]:
        """List the users with access at Nextcloud."""
        # By grant: for some seconds after a token refresh Nextcloud also accepts the previous token.
        known = {(one.uid, one.grant_id) for one in self.servers.sandbox.state.app_passwords.values()}
        return sorted(uid for uid, _ in known)

    async def lists_only(self, expected: list[str]) -> None:
        """Wait until Nextcloud lists exactly these accesses: some are ended in the background."""
        for _ in range(_MOST_LOOKS):
            if self.connected() == expected:
                return
            await anyio.sleep(_LOOK_SECONDS)
        raise NotAsPromised(f"Nextcloud lists the accesses of {self.connected()}, and not of {expected}.")

    async def read_own(self) -> None:
        """Let both users read their notes at the same time, repeatedly."""
        self.narrator.step("Both ask at once, and each reads only their own")
        read: dict[str, set[int]] = {}

        async def ask(member: Member) -> None:
            notes = await member.ask_for_notes()
            if isinstance(notes, Ask):
                raise NotAsPromised("the server asked for what was allowed.")
            read[member.uid] = {int(note["id"]) for note in notes}

        async with anyio.create_task_group() as group:
            for member in (self.alice, self.bob) * 5:
                group.start_soon(ask, member)
        for member in (self.alice, self.bob):
            owned = {int(note["id"]) for note in member.notes}
            expect(bool(owned) and read[member.uid] == owned, "a user got other notes than before")
        expect(not read["alice"] & read["bob"], "the two have notes in common")
        self.narrator.done(
            f"Five calls each: {len(read['alice'])} notes of Alice, {len(read['bob'])} of Bob, none of both."
        )

    async def refuse_number(self) -> None:
        """Let Bob's client request a note of Alice by its id."""
        note = self.alice.notes[0]
        self.narrator.step("Bob's assistant tries the number of a note of Alice")
        self.narrator.say(f"→ {_NOTE}(note_id={note['id']})")
        result = result_of(await self.bob.send(_NOTE, {"note_id": note["id"]}), may_fail=True)
        expect(bool(result.get("isError")), "Bob's assistant read Alice's note")
        self.narrator.say(f"← “{words(result)}”")
        expect(str(note["title"]) not in words(result), "the answer tells what the note is called")
        self.narrator.done("For Bob, there is no such note.")

    async def end(self) -> None:
        """End the access of Alice's client, but not that of Bob's."""
        self.narrator.step("Alice's assistant ends its access, and Bob's keeps his")
        message = str(fields(result_of(await self.alice.send(_REVOKE, {})))["message"])
        self.narrator.say(f"← “{message}”")
        expect(await self.has_no_access(self.alice), "the access of Alice's assistant did not end")
        expect(not isinstance(await self.bob.ask_for_notes(), Ask), "Bob's access ended too")
        self.narrator.done("Alice would be asked again; Bob's assistant reads on.")

    async def has_no_access(self, member: Member) -> bool:
        """Tell whether a user's client is asked for consent, or rejected, when it requests the notes."""
        return isinstance(await member.ask_for_notes(), Ask)


@dataclass(slots=True)
class People(Pair):
    """One run in mode `oidc`: a token identifies the user; the first call asks for consent."""

    async def sign_in(self, member: Member) -> None:
        """Let a user sign in as the server's response demands, and connect the client."""
        self.narrator.step(f"{member.name}'s client is told where to sign in, and {member.name} does")
        app = OAuthClient(ASSISTANT, member.http)
        found = await app.find(self.servers.mcp_url)
        self.narrator.say("← 401, WWW-Authenticate:")
        self.narrator.quote(found.challenge)
        self.narrator.say(f"What it names leads to {found.issuer}, where {member.name} signs in:")
        member.pages.begin(())
        token = await app.sign_in(found, member.person)
        claims = claims_of(token)
        expect(claims["aud"] == self.servers.mcp_url, "the token is good for others as well")
        self.narrator.done(f"A token for {claims['sub']}, good for {claims['aud']} and nothing else.")
        await member.connect(self.servers.mcp_url, token)

    async def run(self) -> None:
        """Run all steps."""
        ask = await self._ask(self.alice)
        await self.refuse_bob(ask, NOTES, {})
        await self._consent(self.alice, ask)
        await self._consent(self.bob, await self._ask(self.bob))
        await self.read_own()
        await self.refuse_number()
        await self.end()

    async def _ask(self, member: Member) -> Ask:
        self.narrator.step(f"{member.name}'s assistant wants {member.name}'s notes")
        self.narrator.say(f"→ {NOTES}()")
        self.narrator.say(f"The token says who {member.name} is, and opens no Nextcloud. So the server asks:")
        return self.asked(member, await member.send(NOTES, {}))

    async def _consent(self, member: Member, ask: Ask) -> None:
        self.narrator.step(f"{member.name} opens it and allows it, while the call waits")
        only = ("notes:read",)
        member.pages.begin(only)
        found: list[dict[str, Any]] = []

        async def wait() -> None:
            found.extend((await member.wait_for(ask, NOTES, {}))["notes"])

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            page = await member.person.consent(ask.url, only=only)
            expect(page.title == "Connected", f"the consent request ended on the page “{page.title}”")
        member.notes, member.dialect.brief = found, True
        for note in found:
            self.narrator.item(str(note["title"]))
        expect(member.uid in self.connected(), "Nextcloud does not list the access")
        self.narrator.done(f"{member.name}'s notes, by a grant that Nextcloud gave for {member.name}.")


@dataclass(slots=True)
class Newcomers(Pair):
    """One run in mode `builtin`: one authorization gives the client its token and the server its grant."""

    apps: dict[str, tuple[OAuthClient, Found]] = field(default_factory=dict[str, tuple[OAuthClient, Found]])

    async def run(self) -> None:
        """Run all steps."""
        await self._connect(self.alice)
        await self._first_notes(self.alice)
        await self._want_more()
        ask = await self._lose_access()
        await self.refuse_bob(ask, NOTES, {})
        await self._allow_again(ask)
        await self._connect(self.bob)
        await self._first_notes(self.bob)
        await self.read_own()
        await self.refuse_number()
        await self.end()

    async def _connect(self, member: Member) -> None:
        self.narrator.step(f"{member.name} gives the server's address to a chat client, and nothing else")
        app = OAuthClient("", member.http)
        found = await app.find(self.servers.mcp_url)
        self.narrator.say(
            f"← 401. It leads to {found.issuer}, which is the same server. The client registers there:"
        )
        registered = await app.register(found, _CLIENT_NAME)
        self.narrator.wire(registered)
        self.narrator.say(f"Then it opens {member.name}'s browser:")
        only = ("notes:read",)
        member.pages.begin(only)
        token = await app.sign_in(found, member.person, only=only)
        self.apps[member.uid] = app, found
        expect(member.uid in self.connected(), "Nextcloud does not list the access")
        await member.connect(self.servers.mcp_url, token)
        self.narrator.done(
            "One authorization: the client has its token, and the server has its grant at Nextcloud."
        )

    async def _first_notes(self, member: Member) -> None:
        self.narrator.step(f"{member.name}'s assistant wants {member.name}'s notes")
        self.narrator.say(f"→ {NOTES}()")
        notes = await member.ask_for_notes()
        if isinstance(notes, Ask):
            raise NotAsPromised("the server asked for what was allowed.")
        member.notes = notes
        for note in notes:
            self.narrator.item(str(note["title"]))
        self.narrator.done("No further question.")

    async def has_no_access(self, member: Member) -> bool:
        """Tell whether the client's token is rejected: it ends with the access."""
        status, _ = await member.client.refused("tools/call", {"name": NOTES, "arguments": {}})
        return status == _UNAUTHORIZED

    async def _want_more(self) -> None:
        self.narrator.step("Alice's assistant wants to write a note, which its token does not cover")
        self.narrator.say(f'→ {_CREATE}(title="{_NEW_NOTE["title"]}")')
        status, challenge = await self.alice.client.refused(
            "tools/call", {"name": _CREATE, "arguments": _NEW_NOTE}
        )
        expect(status == _FORBIDDEN, "a token for reading was good for writing")
        self.narrator.say("← 403, WWW-Authenticate:")
        self.narrator.quote(challenge)
        self.narrator.say("So the client signs in once more and asks for what is named there:")
        app, found = self.apps[self.alice.uid]
        app.ask_for(challenge, keeping=("notes:read",))
        del self.alice.http.headers["Authorization"]
        only = ("notes:read", "notes:write")
        self.alice.pages.begin(only)
        await self.alice.connect(self.servers.mcp_url, await app.sign_in(found, self.alice.person, only=only))
        written = fields(result_of(await self.alice.send(_CREATE, _NEW_NOTE)))
        await self.lists_only(["alice"])
        self.alice.notes.append(written)
        self.narrator.done(f"Written: “{written['title']}”. Nextcloud still lists one access of hers.")

    async def _lose_access(self) -> Ask:
        self.narrator.step("Alice ends the access in Nextcloud, and her assistant wants her notes again")
        kept = self.servers.sandbox.state.app_passwords
        for secret in [secret for secret, one in kept.items() if one.uid == self.alice.uid]:
            del kept[secret]
        self.narrator.say(f"→ {NOTES}()")
        return self.asked(self.alice, await self.alice.send(NOTES, {}))

    async def _allow_again(self, ask: Ask) -> None:
        self.narrator.step("Alice opens it and allows it, while the call waits")
        only = ("notes:read", "notes:write")
        self.alice.pages.begin(only)

        async def wait() -> None:
            await self.alice.wait_for(ask, NOTES, {})

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            page = await self.alice.person.consent(ask.url, only=only)
            expect(page.title == "Connected", f"the consent request ended on the page “{page.title}”")
        self.alice.dialect.brief = True
        await self.lists_only(["alice"])
        self.narrator.done("The call goes on by itself, with the access that Nextcloud gave now.")


async def play_multi_user(
    dialect: Name, out: TextIO, *, mode: Mode = "oidc", plain: bool = False, version: ProfileName = USUAL
) -> None:
    """Run the journey of two users, who sign in at an identity provider, or with Nextcloud itself.

    Raises:
      NotAsPromised: A step did not have the result it announces.
    """
    narrator = Narrator(out, live=out.isatty() and not plain)
    since = anyio.current_time()
    narrator.headline(f"Nextcloud for the assistants of many users, in the form “{dialect}”")
    try:
        with anyio.fail_after(_AT_MOST_SECONDS):
            await (_play if mode == "oidc" else _play_builtin)(dialect, narrator, version)
    except STEP_ERRORS as error:
        raise NotAsPromised(
            f"Step {narrator.steps} ({narrator.step_title}) did not turn out as promised: {reason(error)}"
        ) from error
    narrator.headline(
        f"\nAll {narrator.steps} steps turned out as promised, in {anyio.current_time() - since:.0f} s."
    )
    narrator.say(f"Nothing is left behind. docs/quickstart-{mode}.md says how to run it for your people.")


async def _play(dialect: Name, narrator: Narrator, version: ProfileName) -> None:
    narrator.step("A Nextcloud, an identity provider and the server start on this computer")
    async with open_multi_user_servers(narrator, version) as servers:
        narrator.item(f"A sandbox Nextcloud, with the notes of Alice and Bob: {servers.nextcloud_url}")
        narrator.item(f"An identity provider where both have an account: {servers.issuer.url}")
        narrator.item(f"The server, a process of its own ({servers.process_id}): {servers.mcp_url}")
        places = {servers.nextcloud_url: "Nextcloud's", servers.issuer.url: "The identity provider's"}
        async with (
            _member(narrator, dialect, "Alice", places) as alice,
            _member(narrator, dialect, "Bob", places) as bob,
        ):
            people = People(servers, narrator, alice, bob)
            await people.sign_in(alice)
            await people.sign_in(bob)
            await people.run()


async def _play_builtin(dialect: Name, narrator: Narrator, version: ProfileName) -> None:
    narrator.step("A Nextcloud and the server start on this computer, and nothing else")
    async with open_builtin_servers(narrator, version) as servers:
        narrator.item(f"A sandbox Nextcloud, with the notes of Alice and Bob: {servers.nextcloud_url}")
        narrator.item(f"The server, a process of its own ({servers.process_id}): {servers.mcp_url}")
        places = {servers.nextcloud_url: "Nextcloud's"}
        async with (
            _member(narrator, dialect, "Alice", places) as alice,
            _member(narrator, dialect, "Bob", places) as bob,
        ):
            await Newcomers(servers, narrator, alice, bob).run()


@asynccontextmanager
async def _member(
    narrator: Narrator, name: Name, who: str, places: Mapping[str, str]
) -> AsyncGenerator[Member]:
    """Create a user with a browser and a client, which has no token yet."""
    uid = who.lower()
    pages, dialect = PageNarrator(narrator, places), DIALECTS[name](narrator)
    async with (
        httpx2.AsyncClient(timeout=_CALL_SECONDS) as http,
        httpx2.AsyncClient(timeout=_CALL_SECONDS) as browser,
        anyio.create_task_group() as group,
    ):
        person = Person(uid, uid, browser=browser, show=pages)
        yield Member(who, uid, person, pages, dialect, http, group)
        group.cancel_scope.cancel()
