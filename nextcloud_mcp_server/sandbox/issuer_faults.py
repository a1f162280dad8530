"""Faults of the issuer that a test switches on by name."""

from dataclasses import dataclass, field
from typing import Literal

Endpoint = Literal["discovery", "jwks", "authorize", "token", "introspection", "other"]
IssuerFaultName = Literal[
    "down",  # answers 503
    "slow",  # waits before it answers
    "lost_answer",  # does what was asked, then breaks the connection
    "unpublished_key",  # signs tokens with a key that is in no key set
    "wrong_nonce",  # puts another nonce into the ID token
    "other_subject",  # makes the tokens for the other person
    "wrong_iss",  # names another issuer in the redirect
    "no_iss",  # names none there, though its metadata says it does
    "no_refresh_token",  # keeps the refresh token it should have given
]
#: Those that hit a whole request, whatever is asked; the others change one part of an answer.
OF_REQUESTS: frozenset[IssuerFaultName] = frozenset({"down", "slow", "lost_answer"})


@dataclass(slots=True)
class IssuerFault:
    """One fault: it hits `times` requests (None: all)."""

    name: IssuerFaultName
    endpoint: Endpoint | None = None
    times: int | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class IssuerFaults:
    """The faults that are switched on."""

    active: list[IssuerFault] = field(default_factory=list[IssuerFault])

    def switch_on(
        self,
        name: IssuerFaultName,
        *,
        endpoint: Endpoint | None = None,
        times: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Switch a fault on; `endpoint` None means every one, `seconds` is for `slow`."""
        self.active.append(IssuerFault(name, endpoint, times, seconds))

    def clear(self) -> None:
        """Switch everything off."""
        self.active.clear()

    def take(self, name: IssuerFaultName, endpoint: Endpoint) -> IssuerFault | None:
        """Return whether this fault hits now, and count it."""
        for fault in self.active:
            if fault.name == name and fault.endpoint in {None, endpoint}:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.active.remove(fault)
                return fault
        return None
