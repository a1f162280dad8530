import pytest

from nextcloud_mcp_server.errors import WrongAccount
from nextcloud_mcp_server.storage.failure import Failure


def test_a_failure_is_read_as_it_was_stored() -> None:
    failure = Failure("not_yours", {"answered": "bob", "yours": "älice “a”"})

    assert Failure.unpacked(failure.packed()) == failure


def test_a_failure_has_an_english_sentence_for_clients() -> None:
    failure = Failure("not_yours", {"answered": "bob", "yours": "alice"})

    assert str(failure).startswith("Nextcloud answered for 'bob', but your account is 'alice'.")


@pytest.mark.parametrize("text", ["It broke.", "[]", "3", "{}"])
def test_the_sentence_that_an_earlier_version_stored_is_kept(text: str) -> None:
    failure = Failure.unpacked(text)

    assert (failure.code, str(failure)) == ("", text)


def test_a_failure_of_a_later_version_is_told_as_one() -> None:
    failure = Failure.unpacked('{"code": "eclipse", "of": 3}')

    assert failure == Failure("eclipse", {"of": "3"})
    assert str(failure) == "It did not work."


def test_a_failure_that_lacks_a_value_is_told_as_one() -> None:
    failure = Failure("not_yours", {"answered": "bob"})

    assert not failure.is_known
    assert str(failure) == "It did not work."


def test_an_exception_keeps_the_failure_that_it_was_raised_with() -> None:
    failure = Failure("account_taken", {"answered": "bob"})

    error = WrongAccount(failure)

    assert Failure.of(error) == failure
    assert str(error) == str(failure)


def test_an_exception_that_was_raised_with_a_sentence_has_only_that() -> None:
    assert Failure.of(WrongAccount("Two accounts.")) == Failure("", {"sentence": "Two accounts."})
    assert str(Failure.of(WrongAccount())) == "It did not work."
