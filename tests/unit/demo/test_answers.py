import pytest

from nextcloud_mcp_server.demo.answers import reason
from nextcloud_mcp_server.errors import NotAsPromised


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NotAsPromised("the server did not ask."), "the server did not ask."),
        (ExceptionGroup("", [ExceptionGroup("", [NotAsPromised("inside.")])]), "inside."),
        (TimeoutError(), "it took too long."),
        (KeyError("notes"), "an answer lacks 'notes'."),
        (ConnectionRefusedError("refused"), "ConnectionRefusedError: refused"),
    ],
)
def test_whatever_goes_wrong_becomes_one_sentence(error: Exception, sentence: str) -> None:
    assert reason(error) == sentence
