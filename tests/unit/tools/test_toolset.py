import pytest

from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning, without_provisioning


async def nc_notes_count_notes(nc: object) -> Result:
    """Count the
    notes.
    """
    raise NotImplementedError


async def undocumented(nc: object) -> Result:
    raise NotImplementedError


def test_a_tool_is_data_taken_from_its_body() -> None:
    notes = Toolset("notes")

    notes.tool("Count notes", read_only=True)(require_provisioning("notes:read")(nc_notes_count_notes))

    (spec,) = notes.tools
    assert (spec.toolset, spec.name, spec.title) == ("notes", "nc_notes_count_notes", "Count notes")
    assert spec.description == "Count the notes."
    assert spec.scopes == {"notes:read"}
    assert spec.result_type is Result
    assert (spec.read_only, spec.destructive, spec.idempotent, spec.open_world) == (
        True,
        False,
        True,
        False,
    )


def test_a_tool_without_the_guard_asks_for_nothing() -> None:
    notes = Toolset("notes")

    notes.tool("Count notes")(without_provisioning(nc_notes_count_notes))

    assert notes.tools[0].scopes == frozenset()


def test_a_tool_without_a_docstring_is_refused() -> None:
    with pytest.raises(TypeError, match="undocumented needs a docstring"):
        Toolset("notes").tool("X")(without_provisioning(undocumented))


@pytest.mark.parametrize("scopes", [(), ("notes:everything",)])
def test_a_guard_with_unknown_or_no_scopes_is_refused(scopes: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="needs scopes that an app declares"):
        require_provisioning(*scopes)
