import pytest

from nextcloud_mcp_server.bridge.configuration import Configuration, Permissions, Server
from nextcloud_mcp_server.bridge.permissions import (
    Decision,
    decide,
    decide_elicitation,
    refuse_denied,
    refuse_unattended,
    should_auto_approve,
)
from nextcloud_mcp_server.errors import CallNotAllowed


def decided(tool: str = "read_it", **rules: str) -> Decision:
    """Decide with rules such as `global_deny="a b"`."""
    lists: dict[str, dict[str, tuple[str, ...]]] = {"global": {}, "server": {}}
    for name, globs in rules.items():
        place, verdict = name.split("_")
        lists[place][verdict] = tuple(globs.split())
    server = Server(id="srv", command="x", permissions=Permissions(**lists["server"]))
    return decide(Configuration((server,), permissions=Permissions(**lists["global"])), server, tool)


@pytest.mark.parametrize(
    ("place", "verdict", "rules"),
    [
        (
            "global",
            "deny",
            ["global_deny", "server_deny", "server_ask", "server_allow", "global_ask", "global_allow"],
        ),
        ("server", "deny", ["server_deny", "server_ask", "server_allow", "global_ask", "global_allow"]),
        ("server", "ask", ["server_ask", "server_allow", "global_ask", "global_allow"]),
        ("server", "allow", ["server_allow", "global_ask", "global_allow"]),
        ("global", "ask", ["global_ask", "global_allow"]),
        ("global", "allow", ["global_allow"]),
        ("default", "ask", []),
    ],
)
def test_the_first_list_that_matches_decides(place: str, verdict: str, rules: list[str]) -> None:
    found = decided(**dict.fromkeys(rules, "read_*"))

    assert (found.place, found.verdict) == (place, verdict)


@pytest.mark.parametrize("pattern", ["read_*", "srv__read_it", "mcp__srv__*", "mcp__*__read_it", "*"])
def test_a_rule_for_all_servers_may_name_a_tool_in_three_ways(pattern: str) -> None:
    assert decided(global_deny=pattern).pattern == pattern


@pytest.mark.parametrize("pattern", ["READ_*", "read", "other__read_it", "mcp__read_it"])
def test_a_rule_that_does_not_match_changes_nothing(pattern: str) -> None:
    assert decided(global_deny=pattern).place == "default"


def test_the_lists_of_the_example_decide_as_it_says() -> None:
    rules = {"server_allow": "read_* list_*", "server_deny": "delete_*", "server_ask": "create_* update_*"}

    found = [
        decided(tool, **rules).verdict
        for tool in ("read_a", "list_a", "delete_a", "create_a", "update_a", "x")
    ]

    assert found == ["allow", "allow", "deny", "ask", "ask", "ask"]


@pytest.mark.parametrize(
    ("lists", "verdict"),
    [
        ({"allow": ("Elicit(srv)",)}, "allow"),
        ({"allow": ("Elicit(*)",)}, "allow"),
        ({"allow": ("*",)}, "ask"),
        ({"allow": ("Elicit(other)",)}, "ask"),
        ({"deny": ("*",)}, "deny"),
        ({"deny": ("Elicit(srv)",), "allow": ("Elicit(srv)",)}, "deny"),
        ({}, "ask"),
    ],
)
def test_questions_of_a_server_have_a_rule_of_their_own(
    lists: dict[str, tuple[str, ...]], verdict: str
) -> None:
    of_all = Server(id="srv", command="x")
    of_one = Server(id="srv", command="x", permissions=Permissions(**lists))

    assert decide_elicitation(Configuration(permissions=Permissions(**lists)), of_all).verdict == verdict
    assert decide_elicitation(Configuration(), of_one).verdict == verdict


@pytest.mark.parametrize(
    ("rules", "without", "with_yes"),
    [({"server_allow": "*"}, True, True), ({}, False, True), ({"server_deny": "*"}, False, False)],
)
def test_yes_answers_what_is_asked_and_nothing_that_is_denied(
    rules: dict[str, str], *, without: bool, with_yes: bool
) -> None:
    found = decided(**rules)

    assert should_auto_approve(found) is without
    assert should_auto_approve(found, yes=True) is with_yes


def test_a_decision_explains_itself() -> None:
    assert (
        str(decided(server_deny="read_*")) == 'srv/read_it: deny, because of "read_*" in deny of this server.'
    )
    assert str(decided(global_ask="*")) == 'srv/read_it: ask, because of "*" in ask for all servers.'
    assert str(decided()) == "srv/read_it: ask, because no rule matches it."


def test_what_is_denied_is_refused_with_its_rule() -> None:
    refuse_denied(decided(server_ask="*"))

    with pytest.raises(CallNotAllowed, match='because of "read_\\*" in deny for all servers'):
        refuse_denied(decided(global_deny="read_*"))


def test_what_would_be_asked_is_refused_where_nobody_can_answer() -> None:
    refuse_unattended(decided(server_allow="*"))

    with pytest.raises(CallNotAllowed, match='Add "read_it" to allow'):
        refuse_unattended(decided())
