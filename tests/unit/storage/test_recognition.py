import pytest

from nextcloud_mcp_server.errors import ConfigurationError, ForeignDatabase
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE, refuse_keys, refuse_schema

OURS, OTHER = b"\x01" * 8, b"\x02" * 8


@pytest.mark.parametrize("version", ["0001", SCHEMA_VERSION])
def test_every_earlier_schema_is_taken(version: str) -> None:
    refuse_schema(version, ["accounts"])


@pytest.mark.parametrize("tables", [[], [VERSION_TABLE]])
def test_an_empty_database_is_taken(tables: list[str]) -> None:
    refuse_schema(None, tables)


@pytest.mark.parametrize("version", [f"{int(SCHEMA_VERSION) + 1:04}", "9999", "00001", "ab12", "²²²²", ""])
def test_a_schema_that_is_not_known_is_refused(version: str) -> None:
    with pytest.raises(ForeignDatabase, match="newer version"):
        refuse_schema(version, [])


def test_tables_of_another_program_are_refused_by_name() -> None:
    with pytest.raises(ForeignDatabase, match="'oc_users'"):
        refuse_schema(None, ["oc_users", VERSION_TABLE])


@pytest.mark.parametrize("known", [{OURS}, {OURS, OTHER}, set[bytes]()])
def test_keys_are_taken_of_which_one_is_known_and_any_by_a_database_without_keys(known: set[bytes]) -> None:
    refuse_keys(known, [b"\x03" * 8, OURS], source="TOKEN_ENCRYPTION_KEYS")


@pytest.mark.parametrize("ids", [[OTHER], []])
def test_other_keys_are_refused_with_the_id_of_the_right_one(ids: list[bytes]) -> None:
    with pytest.raises(ConfigurationError, match=rf"{OURS.hex()}.*/keys: put that key back.*keys rotate"):
        refuse_keys({OURS}, ids, source="/keys")
