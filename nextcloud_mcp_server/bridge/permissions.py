"""Whether a tool of a server may be called, and which rule says so.

The first rule that matches decides: what all servers deny, then what the server denies, asks and allows, then what all
servers ask and allow; what no rule names is asked.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from nextcloud_mcp_server.bridge.configuration import Configuration, Permissions, Server
from nextcloud_mcp_server.errors import CallNotAllowed

Verdict = Literal["allow", "ask", "deny"]
Place = Literal["global", "server", "default"]

_ORDER: Final[tuple[tuple[Place, Verdict], ...]] = (
    ("global", "deny"),
    ("server", "deny"),
    ("server", "ask"),
    ("server", "allow"),
    ("global", "ask"),
    ("global", "allow"),
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one tool, or on the questions of a server, and the rule that gave it."""

    subject: str
    verdict: Verdict
    place: Place
    #: Empty where no rule matched.
    pattern: str = ""

    def __str__(self) -> str:
        """Explain the decision as one sentence."""
        if self.place == "default":
            return f"{self.subject}: ask, because no rule matches it."
        whose = "for all servers" if self.place == "global" else "of this server"
        return f'{self.subject}: {self.verdict}, because of "{self.pattern}" in {self.verdict} {whose}.'


def decide(configuration: Configuration, server: Server, tool: str) -> Decision:
    """Decide on a tool by the name that the server gave it.

    A pattern for all servers may name it as `tool`, `server__tool` or `mcp__server__tool`.
    """
    names = (tool, f"{server.id}__{tool}", f"mcp__{server.id}__{tool}")
    for place, verdict in _ORDER:
        rules: Permissions = configuration.permissions if place == "global" else server.permissions
        patterns: tuple[str, ...] = getattr(rules, verdict)
        for pattern in patterns:
            if any(fnmatchcase(name, pattern) for name in names):
                return Decision(f"{server.id}/{tool}", verdict, place, pattern)
    return Decision(f"{server.id}/{tool}", "ask", "default")


def decide_elicitation(configuration: Configuration, server: Server) -> Decision:
    """Decide whether a server may ask the user something: the pattern is `Elicit(<server>)`.

    `*` denies and asks, but it allows no questions: a user who allows all tools has not allowed pages to open.
    """
    subject = f"Elicit({server.id})"
    for place, verdict in _ORDER:
        rules: Permissions = configuration.permissions if place == "global" else server.permissions
        patterns: tuple[str, ...] = getattr(rules, verdict)
        for pattern in patterns:
            named = pattern.startswith("Elicit(") or verdict != "allow"
            if named and fnmatchcase(subject, pattern):
                return Decision(subject, verdict, place, pattern)
    return Decision(subject, "ask", "default")


def should_auto_approve(decision: Decision, *, yes: bool = False) -> bool:
    """Say whether a call needs no answer of the user; `yes` answers what is asked, not what is denied."""
    return decision.verdict == "allow" or (yes and decision.verdict == "ask")


def refuse_denied(decision: Decision) -> None:
    """Refuse what a rule denies.

    Raises:
        CallNotAllowed: It is denied; the text names the rule.
    """
    if decision.verdict == "deny":
        raise CallNotAllowed(f"The permissions do not allow it. {decision}")


def refuse_unattended(decision: Decision) -> None:
    """Refuse what would be asked, where no user can answer.

    Raises:
        CallNotAllowed: The verdict is ask; the text says how to allow it.
    """
    if decision.verdict == "ask":
        tool = decision.subject.partition("/")[2]
        raise CallNotAllowed(
            f"Nobody can be asked here. {decision} "
            f'Add "{tool}" to allow in the permissions of the server, or run the command with --yes.'
        )
