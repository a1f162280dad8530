import base64
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

import nextcloud_mcp_server
from nextcloud_mcp_server.errors import ConfigurationError, Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed, hash_of, load_or_create_key_file, new_key
from nextcloud_mcp_server.storage.records import Principal

KEY = new_key()
PLACE = ("credentials", "issuer", "subject", "row", "secret")


def ring(*texts: str) -> KeyRing:
    return KeyRing.parse([SecretStr(text) for text in texts])


def test_a_sealed_value_opens_at_its_place() -> None:
    keys = ring(new_key())

    sealed = keys.seal("pässword", PLACE)

    assert keys.open(sealed, PLACE) == "pässword"
    assert "pässword".encode() not in sealed.value


def test_a_row_seals_and_opens_its_columns_and_keeps_empty_ones_empty() -> None:
    row = ring(new_key()).at("elicitations", Principal("issuer", "subject"), "row")

    assert row.open("url", row.seal("url", "text")) == "text"
    assert row.open_optional("error", row.seal_optional("error", "text")) == "text"
    assert row.open_optional("error", row.seal_optional("error", None)) is None


def test_a_value_opens_in_no_other_table_though_row_column_and_person_are_the_same() -> None:
    keys, alice = ring(new_key()), Principal("issuer", "subject")
    sealed = keys.at("credentials", alice, "row").seal("secret", "text")

    with pytest.raises(Unsealable, match="changed or moved"):
        keys.at("credential_alternates", alice, "row").open("secret", sealed)


def test_the_same_text_is_sealed_differently_each_time() -> None:
    keys = ring(new_key())

    assert keys.seal("text", PLACE) != keys.seal("text", PLACE)


@pytest.mark.parametrize("part", range(len(PLACE)))
def test_a_sealed_value_does_not_open_at_another_place(part: int) -> None:
    keys = ring(new_key())
    sealed = keys.seal("text", PLACE)
    moved = [*PLACE[:part], "other", *PLACE[part + 1 :]]

    with pytest.raises(Unsealable, match="changed or moved"):
        keys.open(sealed, moved)


def test_parts_of_a_place_cannot_be_shifted_into_each_other() -> None:
    keys = ring(new_key())
    sealed = keys.seal("text", ("ab", "c"))

    with pytest.raises(Unsealable):
        keys.open(sealed, ("a", "bc"))


#: Texts that a shorter way to put parts together, with a separator or short lengths, would take for others.
_PARTS = st.lists(st.text(st.sampled_from("ab\0\1\2|,é"), max_size=4), min_size=1, max_size=4)


@given(_PARTS, _PARTS)
@settings(max_examples=200, deadline=None)
def test_a_value_opens_at_no_place_that_is_not_the_same_in_each_part(
    here: list[str], there: list[str]
) -> None:
    keys = ring(KEY)
    sealed = keys.seal("text", here)

    if here == there:
        assert keys.open(sealed, there) == "text"
    else:
        with pytest.raises(Unsealable):
            keys.open(sealed, there)


@pytest.mark.parametrize("separator", ["", "\0", "|", "\n", "\x1f"])
def test_a_part_cannot_hold_what_separates_two_parts(separator: str) -> None:
    keys = ring(KEY)
    sealed = keys.seal("text", ("table", f"a{separator}b", "c"))

    for place in (
        ("table", "a", f"b{separator}c"),
        ("table", "a", "b", "c"),
        (f"table{separator}a", "b", "c"),
    ):
        with pytest.raises(Unsealable):
            keys.open(sealed, place)


def test_a_part_may_be_longer_than_a_length_of_one_byte_says() -> None:
    keys = ring(KEY)
    sealed = keys.seal("text", ("table", "a" * 70_000))

    assert keys.open(sealed, ("table", "a" * 70_000)) == "text"


@pytest.mark.parametrize("position", [0, 1, 9, 21, -1])
def test_a_changed_value_does_not_open(position: int) -> None:
    keys = ring(new_key())
    changed = bytearray(keys.seal("text", PLACE).value)
    changed[position] ^= 1

    with pytest.raises(Unsealable):
        keys.open(Sealed(bytes(changed)), PLACE)


@pytest.mark.parametrize("length", [0, 1, 9, 20, 21, 30])
def test_a_cut_value_does_not_open(length: int) -> None:
    keys = ring(new_key())
    sealed = keys.seal("text", PLACE)

    with pytest.raises(Unsealable):
        keys.open(Sealed(sealed.value[:length]), PLACE)


def test_the_first_key_seals_and_all_keys_open() -> None:
    old, new = new_key(), new_key()
    sealed_before = ring(old).seal("before", PLACE)

    rotated = ring(new, old)

    assert rotated.open(sealed_before, PLACE) == "before"
    assert ring(new).open(rotated.seal("after", PLACE), PLACE) == "after"


def test_a_value_of_a_missing_key_says_what_to_do() -> None:
    sealed = ring(new_key()).seal("text", PLACE)

    with pytest.raises(Unsealable, match="TOKEN_ENCRYPTION_KEYS"):
        ring(new_key()).open(sealed, PLACE)


def test_a_key_given_twice_counts_once() -> None:
    key = new_key()

    assert len(ring(key, key + "=").derive("cookies")) == 1


def test_sub_keys_differ_by_purpose_and_key_and_start_with_the_current_one() -> None:
    old, new = new_key(), new_key()

    cookies = ring(new, old).derive("cookies")

    assert cookies == [*ring(new).derive("cookies"), *ring(old).derive("cookies")]
    assert not set(cookies) & set(ring(new, old).derive("request state"))
    assert {len(key) for key in cookies} == {32}


def test_a_key_ring_does_not_show_its_keys() -> None:
    master = base64.urlsafe_b64decode(new_key() + "=")
    keys = KeyRing([master])

    assert str(master) not in repr(vars(keys))


@pytest.mark.parametrize("text", ["", "short", "!" * 43, "ä" * 43, "Ab1-" * 10, "Ab1-" * 21 + "Ab"])
def test_a_text_that_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="TOKEN_ENCRYPTION_KEYS") as caught:
        ring(text)

    assert not text or text not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_is_no_key_is_named_by_the_file_that_holds_it() -> None:
    with pytest.raises(ConfigurationError, match=r"^/data/encryption\.key holds .* Put the right key back"):
        KeyRing.parse([SecretStr("junk")], source="/data/encryption.key")


def test_an_empty_key_ring_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="keys new"):
        KeyRing.parse([])


def test_a_hash_is_the_same_each_time_and_does_not_hold_the_id() -> None:
    assert hash_of("abc") == hash_of("abc") != hash_of("abd")
    assert "abc" not in hash_of("abc")[:8]


def test_a_key_file_is_made_once_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key"

    first, created = load_or_create_key_file(path)
    again, created_again = load_or_create_key_file(path)

    assert (created, created_again) == (True, False)
    assert first == again
    assert KeyRing.parse(first)
    assert [file.name for file in path.parent.iterdir()] == ["key"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_a_key_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key"

    load_or_create_key_file(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_key_file_may_hold_several_keys_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("new\nold\n")

    keys, _ = load_or_create_key_file(path)

    assert [key.get_secret_value() for key in keys] == ["new", "old"]


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_key_file_without_keys_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)

    with pytest.raises(ConfigurationError, match="key file"):
        load_or_create_key_file(path)

    assert path.read_bytes() == content


def test_a_key_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="TOKEN_ENCRYPTION_KEYS_FILE"):
        load_or_create_key_file(tmp_path / "file" / "key")


def test_a_link_in_place_of_the_key_file_is_not_written_through(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigurationError):
        load_or_create_key_file(path)

    assert [file.name for file in tmp_path.iterdir()] == ["key"]


@pytest.mark.process
def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    script = f"""
import sys
from pathlib import Path
from nextcloud_mcp_server.storage.crypto import load_or_create_key_file
print("ready", flush=True)
sys.stdin.readline()
keys, created = load_or_create_key_file(Path({str(path)!r}))
print(keys[0].get_secret_value(), created)
"""
    root = Path(nextcloud_mcp_server.__file__).parents[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout
        process.stdout.readline()

    answers = [process.communicate("go\n", timeout=60)[0].split() for process in processes]

    assert {key for key, _ in answers} == {path.read_text().strip()}
    assert sorted(created for _, created in answers) == ["False", "False", "False", "True"]


@pytest.mark.parametrize(
    ("place", "sealed"),
    [
        (
            ("pending_grants", "https://issuer.example", "alice", "row-1", "tokens"),
            "AWyUhYIFNVelY6mkgRGjZtOl//Bex1fiK2VRCImswb/r4aaotvYwM+OBdg==",
        ),
        (
            ("grant_requests", "https://issuer.example", "alice", "row-1", "verifier"),
            "AWyUhYIFNVelDfHeS7nD/6D4rQaVlbFPe1e4QtlRJJEdZowf9qaLz4548w==",
        ),
        (
            ("authorization_transactions", "row-1", "browser", "", "details"),
            "AWyUhYIFNVelSiEjhvWVF4tSNtYjWD9UWX/a1SW1RrmZyJ81NRLLOy575A==",
        ),
    ],
)
def test_what_was_sealed_before_its_table_was_renamed_still_opens(
    place: tuple[str, ...], sealed: str
) -> None:
    """Sealed by the version with schema 0008, whose tables had other names."""
    keys = KeyRing([bytes(range(32))])

    assert keys.open(Sealed(base64.b64decode(sealed)), place) == "secret"


def test_the_storage_id_that_was_sealed_as_home_id_still_opens() -> None:
    """Sealed by the version with schema 0008."""
    row = KeyRing([bytes(range(32))]).at(
        "pending_grants", Principal("https://issuer.example", "alice"), "row-1"
    )
    sealed = Sealed(base64.b64decode("AWyUhYIFNVelBbFd+/lRMAbQJVrrCMpTw0hgsShwNnzZr0oCFWI="))

    assert row.open("storage_id", sealed) == "7"
