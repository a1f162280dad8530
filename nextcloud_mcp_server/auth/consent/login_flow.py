"""Login Flow v2 as a grant provider, and the poller that completes each flow.

Login Flow v2 has no callback: it is polled, and it answers once. So the poll token is stored before the user is
sent anywhere, and the answer is stored before it is used. A flow that no consent request needs any more is
still polled, and its app password is deleted at Nextcloud.
"""

import contextlib
import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.provider import GrantProvider, Identity
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.outbox import END_AFTER, Outbox
from nextcloud_mcp_server.auth.patience import patiently
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    NextcloudError,
    StorageError,
    Throttled,
    Unsealable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.login_flow import StartedFlow
from nextcloud_mcp_server.nextcloud.program import PROGRAM
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import Elicitation, LoginFlow, LoginResult, Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: How long Nextcloud keeps a flow (core/Controller/ClientFlowLoginV2Controller: 20 minutes).
FLOW_LIFETIME = timedelta(minutes=20)

#: A process that dies during a poll blocks the others for this long: shorter than a call is held.
LEASE = timedelta(seconds=15)
FIRST_POLL_SECONDS = 1.0
SLOWEST_POLL_SECONDS = 10.0
IDLE_SECONDS = 30.0
THROTTLED_SECONDS = 60.0
#: Longer than any flow lives; an upstream whose clock is far ahead may ask for thousands of years.
LONGEST_PAUSE_SECONDS = 7_200.0

#: How long a call waits for an immediate poll, and for the end of the consent request once Nextcloud has granted.
POLL_NOW_SECONDS, SETTLE_SECONDS = 1.0, 2.5

#: The pauses in which another process may release a flow; one that keeps it longer is probably dead.
TAKE_OVER_AFTER = (0.05, 0.15, 0.3)

#: How long a stopping server may take to release a flow.
GIVE_BACK_SECONDS = 2.0

#: A poll is completed even by a stopping server: Nextcloud answers only once.
ANSWER_SECONDS = 15.0


class LoginFlowProvider:
    """Gets app passwords through Login Flow v2; nothing has to be set up at Nextcloud."""

    name = "login_flow"

    def __init__(self, nextcloud: Nextcloud, database: "Database", *, clock: Callable[[], datetime]) -> None:
        self._nextcloud = nextcloud
        self._database = database
        self._clock = clock
        self._started = anyio.Event()
        #: Why the last flow could not start. It is kept in the process: another process asks Nextcloud itself.
        self.obstacle = ""

    def next_start(self) -> anyio.Event:
        """Return an event that is set when this process starts the next flow."""
        self._started = anyio.Event()
        return self._started

    async def authorize_url(
        self, elicitation: Elicitation, scopes: frozenset[str], *, uid: str | None = None
    ) -> SecretStr:
        """Start a flow at Nextcloud, or return the URL of the flow this consent request already has.

        The last answer counts: a user who goes back and unticks a box must not get the first choice. The
        account does not change: the sign-in before the flow determined it.
        """
        flow = await self._database.login_flows.find(elicitation.id)
        if flow is None:
            begun = await self._start()
            flow = await self._database.login_flows.create(
                elicitation_id=elicitation.id,
                principal=elicitation.principal,
                login_url=begun.login_url,
                poll_token=begun.poll_token,
                scopes=scopes,
                expires_at=self._clock() + FLOW_LIFETIME,
                uid=uid,
            )
        if flow.uid != uid:
            raise WrongAccount(
                f"This was begun for the Nextcloud account {flow.uid!r}, but your sign-in now gives you {uid!r}."
                " Ask your assistant again in some minutes."
            )
        if flow.scopes != scopes:
            await self._database.login_flows.set_scopes(flow.id, scopes)
        self._started.set()
        return flow.login_url

    async def _start(self) -> StartedFlow:
        try:
            begun = await self._nextcloud.login.start()
            await self._nextcloud.login_pages.check(begun.login_url)
        except NextcloudError as error:
            self.obstacle = str(error)
            raise
        self.obstacle = ""
        return begun

    async def exchange_code(self, flow: LoginFlow) -> LoginResult | None:
        """Poll a flow once; None while the user has not confirmed."""
        granted = await self._nextcloud.login.poll(flow.poll_token)
        return LoginResult(granted.login_name, granted.app_password) if granted else None

    async def identify(self, result: LoginResult) -> Identity:
        """Ask Nextcloud for the user id: the login name may be an e-mail address."""
        credential = BasicCredential(result.login_name, result.app_password)
        user = await self._nextcloud.whoami(credential)
        storage_id = await self._nextcloud.storage_id(credential, uid=user.uid)
        return Identity(uid=user.uid, display_name=user.display_name, storage_id=storage_id)

    async def revoke(self, *, login_name: str, secret: SecretStr) -> None:
        """Delete an app password; it authenticates its own deletion."""
        await self._nextcloud.delete_app_password(BasicCredential(login_name, secret))


class Poller:
    """Completes login flows, whichever process started them.

    `within` limits it to one user. Single-user mode needs that: servers for several Nextclouds may share a
    database there, and a poll token must only be sent to the Nextcloud that made it.
    """

    def __init__(
        self,
        database: "Database",
        provider: GrantProvider,
        provisioning: Provisioning,
        *,
        clock: Callable[[], datetime],
        wake: Callable[[], anyio.Event],
        outbox: Outbox,
        within: Principal | None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._database = database
        self._provider = provider
        self._provisioning = provisioning
        self._clock = clock
        self._wake = wake
        self._outbox = outbox
        self._within = within
        self._answer_seconds = answer_seconds
        self._owner = str(uuid4())
        #: The flows that this process is polling, by the ids of their elicitations; each event is set when the
        #: poll is done.
        self._steps: dict[str, anyio.Event] = {}
        self._asked: dict[str, anyio.Event] = {}
        self._hurry = anyio.Event()
        #: The end of a pause that Nextcloud asked for; no call shortens it.
        self._paused_until: datetime | None = None

    async def run(self) -> None:
        """Poll as long as the server runs."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._poll_periodically)
            while True:
                await self._hurry.wait()
                self._hurry = anyio.Event()
                asked, self._asked = self._asked, {}
                for elicitation_id, done in asked.items():
                    group.start_soon(self._poll_early, elicitation_id, done)

    async def poll_now(self, elicitation_id: str) -> bool:
        """Poll one flow at once, and wait shortly for the answer; True when its consent request has ended.

        Without this, a process that was started for one call, or whose next poll is seconds away, would give
        the client a link that was used meanwhile.
        """
        if await self._find(elicitation_id) is None:
            # The user has not been sent to Nextcloud yet, or the flow ended since the request was looked at.
            return bool(await self._provisioning.finished([elicitation_id]))
        done = self._asked.setdefault(elicitation_id, anyio.Event())
        self._hurry.set()
        for seconds in (POLL_NOW_SECONDS, SETTLE_SECONDS):
            with anyio.move_on_after(seconds):
                await done.wait()
            flow = await self._find(elicitation_id)
            if flow is None or done.is_set() or flow.result is None:
                return flow is None
        return False

    async def _find(self, elicitation_id: str) -> LoginFlow | None:
        """Read a flow; one that cannot be decrypted counts as absent."""
        with contextlib.suppress(Unsealable):
            return await self._database.login_flows.find(elicitation_id)
        return None

    async def _poll_early(self, elicitation_id: str, done: anyio.Event) -> None:
        try:
            if self._pauses():
                return
            flow = await self._take(elicitation_id)
            if flow is not None:
                await self._supervised(flow)
            elif elicitation_id in self._steps:
                await self._steps[elicitation_id].wait()
        except Exception:  # a supervisor: a database that is busy once must not end the polling
            logger.exception("a login flow could not be polled out of turn")
        finally:
            done.set()

    def _pauses(self) -> bool:
        # A pause that ends later than any was set by a clock that has been corrected since.
        longest = timedelta(seconds=LONGEST_PAUSE_SECONDS)
        return self._paused_until is not None and timedelta() < self._paused_until - self._clock() <= longest

    async def _take(self, elicitation_id: str) -> LoginFlow | None:
        """Lease a flow; None when there is nothing to do.

        A flow that another process holds is taken over after the pauses of `TAKE_OVER_AFTER`.
        """
        flows = self._database.login_flows
        for pause in TAKE_OVER_AFTER:
            flow = await flows.lease_one(elicitation_id, owner=self._owner, lease=LEASE, from_others=False)
            if flow is not None or elicitation_id in self._steps:
                return flow
            await anyio.sleep(pause)
        return await flows.lease_one(elicitation_id, owner=self._owner, lease=LEASE, from_others=True)

    async def _poll_periodically(self) -> None:
        while True:
            wake = self._wake()
            try:
                seconds = await self.run_once()
            except Exception:  # a supervisor: one bad turn must not end the polling
                logger.exception("polling login flows failed; trying again")
                seconds = IDLE_SECONDS
            with anyio.move_on_after(seconds):
                await wake.wait()

    async def run_once(self) -> float:
        """Poll all flows that are due; return in how many seconds to call again."""
        await self._provisioning.expire()
        flows = self._database.login_flows
        leased = await flows.lease_due(owner=self._owner, lease=LEASE, within=self._within)
        async with anyio.create_task_group() as group:
            for flow in leased:
                group.start_soon(self._supervised, flow)
        due = await flows.next_due_at(self._within)
        if due is None:
            return IDLE_SECONDS
        return min(max((due - self._clock()).total_seconds(), 0.2), IDLE_SECONDS)

    async def _supervised(self, flow: LoginFlow) -> None:
        done = self._steps[flow.elicitation_id] = anyio.Event()
        try:
            await self._step(flow)
        except Exception:  # a supervisor: one bad flow must not cut off the answers to the others
            # Its lease keeps it from being polled again before `LEASE` has passed.
            logger.exception("a login flow could not be taken further; trying again")
        finally:
            if self._steps.get(flow.elicitation_id) is done:
                del self._steps[flow.elicitation_id]
            done.set()

    async def _step(self, flow: LoginFlow) -> None:
        try:
            result = flow.result or await self._exchange_code(flow)
            if result is None:
                await self._schedule_next(flow, self._pause(flow))
                return
        except NextcloudError as error:
            logger.warning("a login flow could not be polled: %s", error)
            await self._schedule_next(flow, self._pause_after(error, flow))
            return
        try:
            await self._settle(flow, result)
        except NextcloudError as error:
            logger.warning("Nextcloud could not be asked who gave access: %s", error)
            await self._postpone(flow, self._pause_after(error, flow))

    async def _exchange_code(self, flow: LoginFlow) -> LoginResult | None:
        """Poll once, and store the answer before anything else can happen."""
        with anyio.move_on_after(self._answer_seconds, shield=True) as limit:
            result = await self._provider.exchange_code(flow)
            # From here on nothing may interrupt: no other process knows this app password.
            limit.deadline = float("inf")
            if result is not None:
                await self._save(flow, result)
            return result
        return None

    async def _save(self, flow: LoginFlow, result: LoginResult) -> None:
        try:
            await patiently(partial(self._database.login_flows.save_result, flow.id, result))
        except StorageError:
            # The app password cannot be stored (a full disk, say), and unless deleted it would stay valid.
            await self._provider.revoke(login_name=result.login_name, secret=result.app_password)
            raise

    async def _schedule_next(self, flow: LoginFlow, seconds: float) -> None:
        if self._clock() < flow.expires_at:
            await self._postpone(flow, seconds)
            return
        await self._provisioning.failed(flow, Failure("took_too_long", {"program": PROGRAM}))
        await self._database.login_flows.delete(flow.id, owner=self._owner)

    async def _settle(self, flow: LoginFlow, result: LoginResult) -> None:
        stored, refused = False, False
        if not flow.discard:
            try:
                identity = await self._provider.identify(result)
                stored = await self._provisioning.exchanged(flow, result, identity)
            except CredentialRejected:
                refused = True
                await self._provisioning.failed(flow, Failure("not_accepted"))
            except WrongAccount as error:
                logger.warning("access to another account was refused and is deleted: %s", error)
        if not stored:
            await self._discard_result(flow, result, after=END_AFTER if refused else timedelta())
        # Deletes a discarded or replaced app password at Nextcloud now, and not in a minute.
        self._outbox.wake()

    async def _discard_result(self, flow: LoginFlow, result: LoginResult, *, after: timedelta) -> None:
        url = self._provisioning.nextcloud_url
        await self._database.login_flows.throw_away(flow, result, nextcloud_url=url, after=after)

    async def _postpone(self, flow: LoginFlow, seconds: float) -> None:
        next_poll_at = self._clock() + timedelta(seconds=seconds)
        # Shielded, so that a stopping server releases the flow for the next one.
        with anyio.move_on_after(GIVE_BACK_SECONDS, shield=True):
            await self._database.login_flows.postpone(flow.id, owner=self._owner, next_poll_at=next_poll_at)

    def _pause_after(self, error: NextcloudError, flow: LoginFlow) -> float:
        if isinstance(error, Throttled):
            seconds = min(max(THROTTLED_SECONDS, error.retry_after_seconds or 0.0), LONGEST_PAUSE_SECONDS)
            self._paused_until = self._clock() + timedelta(seconds=seconds)
            return seconds
        return self._pause(flow)

    def _pause(self, flow: LoginFlow) -> float:
        # The pause grows: a user needs some seconds for the page, and one who takes a break can wait longer. The
        # jitter keeps processes from polling in step.
        slowest = min(FIRST_POLL_SECONDS * 1.15**flow.attempts, SLOWEST_POLL_SECONDS)
        return slowest * random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
