"""Two people and one server: each connects their own Nextcloud account, and neither gets at the other's."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

import anyio
import httpx2

from nextcloud_mcp_server.demo.answers import TROUBLES, expect, fields, reason, result_of, words
from nextcloud_mcp_server.demo.dialect import DIALECTS, Ask, Dialect, Name
from nextcloud_mcp_server.demo.looking import Looking
from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.oauth_client import OAuthClient, claims_of
from nextcloud_mcp_server.demo.stage import ASSISTANT, PeopleStage, open_people_stage
from nextcloud_mcp_server.demo.wire_client import Message, WireClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person

_NOTES = "nc_notes_list_notes"
_NOTE = "nc_notes_get_note"
_REVOKE = "revoke_nextcloud_access"
_AT_MOST_SECONDS = 120
_CALL_SECONDS = 330
_FORBIDDEN = 403


@dataclass(slots=True)
class Member:
    """One of the people, with their own browser and their own client."""

    name: str
    uid: str
    person: Person
    looking: Looking
    dialect: Dialect
    client: WireClient
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def send(self, tool: str, arguments: Message, more: Message | None = None) -> Message:
        """Call a tool; the answer is whatever came back."""
        return await self.client.request("tools/call", {"name": tool, "arguments": arguments, **(more or {})})

    async def ask_for_notes(self) -> Ask | list[dict[str, Any]]:
        """Ask for the notes; the answer is the server's question where it has one."""
        answer = await self.send(_NOTES, {})
        ask = self.dialect.asks(answer)
        return list(fields(result_of(answer))["notes"]) if ask is None else ask

    async def wait_for(self, ask: Ask) -> list[dict[str, Any]]:
        """Wait in this client's way until the visit is over, and take the notes."""

        async def again(more: Message) -> Message:
            return await self.send(_NOTES, {}, more)

        return list(fields(result_of(await self.dialect.finish(self.client, ask, again)))["notes"])


@dataclass(slots=True)
class People:
    """One run with Alice and Bob."""

    stage: PeopleStage
    narrator: Narrator
    alice: Member
    bob: Member

    async def run(self) -> None:
        """Play all of it."""
        ask = await self._ask(self.alice)
        await self._refuse_bob(ask)
        await self._consent(self.alice, ask)
        await self._consent(self.bob, await self._ask(self.bob))
        await self._read_own()
        await self._refuse_number()
        await self._end()

    async def _ask(self, member: Member) -> Ask:
        self.narrator.step(f"{member.name}'s assistant wants {member.name}'s notes")
        self.narrator.say(f"→ {_NOTES}()")
        self.narrator.say(f"The token says who {member.name} is, and opens no Nextcloud. So the server asks:")
        answer = await member.send(_NOTES, {})
        member.dialect.show(f"← {member.dialect.asked_by}", answer)
        ask = member.dialect.asks(answer)
        if ask is None:
            raise NotAsPromised("the server did not ask for consent.")
        return ask

    async def _refuse_bob(self, ask: Ask) -> None:
        self.narrator.step("Bob opens Alice's link")
        self.narrator.say("Somebody sent it to him. He signs in as himself, as anybody would:")
        self.bob.looking.begin(())
        page = await self.bob.person.consent(ask.url)
        expect(page.status == _FORBIDDEN, f"Bob came as far as the page “{page.title}”")
        expect(not self.stage.sandbox.state.oauth_grants, "Nextcloud has given access")
        again = await self.alice.ask_for_notes()
        expect(isinstance(again, Ask), "Alice's assistant got notes without her consent")
        self.narrator.done("Refused: a link is for the person whose assistant asked. Nothing was connected.")

    async def _consent(self, member: Member, ask: Ask) -> None:
        self.narrator.step(f"{member.name} opens it and allows it, while the call waits")
        only = ("notes:read",)
        member.looking.begin(only)
        found: list[dict[str, Any]] = []

        async def wait() -> None:
            found.extend(await member.wait_for(ask))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            page = await member.person.consent(ask.url, only=only)
            expect(page.title == "Connected", f"the visit ended on the page “{page.title}”")
        member.notes, member.dialect.brief = found, True
        for note in found:
            self.narrator.item(str(note["title"]))
        grants = self.stage.sandbox.state.app_passwords.values()
        expect(any(one.uid == member.uid for one in grants), "Nextcloud does not list the access")
        self.narrator.done(f"{member.name}'s notes, by a grant that Nextcloud gave for {member.name}.")

    async def _read_own(self) -> None:
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
            expect(bool(owned) and read[member.uid] == owned, "somebody got other notes than before")
        expect(not read["alice"] & read["bob"], "the two have notes in common")
        self.narrator.done(
            f"Five calls each: {len(read['alice'])} notes of Alice, {len(read['bob'])} of Bob, none of both."
        )

    async def _refuse_number(self) -> None:
        note = self.alice.notes[0]
        self.narrator.step("Bob's assistant tries the number of a note of Alice")
        self.narrator.say(f"→ {_NOTE}(note_id={note['id']})")
        result = result_of(await self.bob.send(_NOTE, {"note_id": note["id"]}), may_fail=True)
        expect(bool(result.get("isError")), "Bob's assistant read Alice's note")
        self.narrator.say(f"← “{words(result)}”")
        expect(str(note["title"]) not in words(result), "the answer tells what the note is called")
        self.narrator.done("For Bob, there is no such note.")

    async def _end(self) -> None:
        self.narrator.step("Alice ends her access, and Bob keeps his")
        message = str(fields(result_of(await self.alice.send(_REVOKE, {})))["message"])
        self.narrator.say(f"← “{message}”")
        left = {one.uid for one in self.stage.sandbox.state.app_passwords.values()}
        expect(left == {"bob"}, "Nextcloud lists other accesses than Bob's")
        expect(isinstance(await self.alice.ask_for_notes(), Ask), "Alice's access did not end")
        expect(not isinstance(await self.bob.ask_for_notes(), Ask), "Bob's access ended too")
        self.narrator.done("Alice would be asked again; Bob's assistant reads on.")


async def play_people(dialect: Name, out: TextIO, *, plain: bool = False) -> None:
    """Play the journey of two people.

    Raises:
        NotAsPromised: A step did not turn out as it says.
    """
    narrator = Narrator(out, live=out.isatty() and not plain)
    since = anyio.current_time()
    narrator.headline(f"Nextcloud for the assistants of many people, in the form “{dialect}”")
    try:
        with anyio.fail_after(_AT_MOST_SECONDS):
            await _play(dialect, narrator)
    except TROUBLES as error:
        raise NotAsPromised(
            f"Step {narrator.steps} ({narrator.step_title}) did not turn out as promised: {reason(error)}"
        ) from error
    narrator.headline(
        f"\nAll {narrator.steps} steps turned out as promised, in {anyio.current_time() - since:.0f} s."
    )
    narrator.say("Nothing is left behind. docs/quickstart-oidc.md says how to run it for your people.")


async def _play(dialect: Name, narrator: Narrator) -> None:
    narrator.step("A Nextcloud, an identity provider and the server start on this computer")
    async with open_people_stage(narrator) as stage:
        narrator.item(f"A sandbox Nextcloud, with the notes of Alice and Bob: {stage.nextcloud_url}")
        narrator.item(f"An identity provider where both have an account: {stage.issuer.url}")
        narrator.item(f"The server, a process of its own ({stage.process_id}): {stage.mcp_url}")
        async with (
            _member(stage, narrator, dialect, "Alice") as alice,
            _member(stage, narrator, dialect, "Bob") as bob,
        ):
            await People(stage, narrator, alice, bob).run()


@asynccontextmanager
async def _member(stage: PeopleStage, narrator: Narrator, name: Name, who: str) -> AsyncGenerator[Member]:
    """Sign somebody in and connect their client."""
    uid = who.lower()
    places = {stage.nextcloud_url: "Nextcloud's", stage.issuer.url: "The identity provider's"}
    looking, dialect = Looking(narrator, places), DIALECTS[name](narrator)
    async with (
        httpx2.AsyncClient(timeout=_CALL_SECONDS) as http,
        httpx2.AsyncClient(timeout=_CALL_SECONDS) as browser,
        anyio.create_task_group() as group,
    ):
        person = Person(uid, uid, browser=browser, show=looking)
        narrator.step(f"{who}'s client is told where to sign in, and {who} does")
        app = OAuthClient(ASSISTANT, http)
        found = await app.find(stage.mcp_url)
        narrator.say("← 401, WWW-Authenticate:")
        narrator.quote(found.challenge)
        narrator.say(f"What it names leads to {found.issuer}, where {who} signs in:")
        looking.begin(())
        token = await app.sign_in(found, person)
        claims = claims_of(token)
        expect(claims["aud"] == stage.mcp_url, "the token is good for others as well")
        narrator.done(f"A token for {claims['sub']}, good for {claims['aud']} and nothing else.")
        http.headers["Authorization"] = f"Bearer {token}"
        client = dialect.client(http, stage.mcp_url)
        await client.open()
        await group.start(dialect.attend, client)
        yield Member(who, uid, person, looking, dialect, client)
        group.cancel_scope.cancel()
