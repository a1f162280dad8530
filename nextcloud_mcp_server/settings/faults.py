"""Collects what is wrong with the settings, so that one error names all of it."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from nextcloud_mcp_server.errors import ConfigurationError


class Faults(ConfigurationError):
    """All that is wrong with the settings: sentences, and a list of what is missing."""

    def __init__(self, sentences: Sequence[str], missing: str = "") -> None:
        super().__init__(_text(list(dict.fromkeys(sentences)), missing))
        self.sentences = tuple(sentences)
        self.missing = missing


class FaultCollection:
    """Gathers faults, and raises them together."""

    def __init__(self, sentences: Iterable[str] = ()) -> None:
        self._sentences = list(sentences)
        self._missing = ""

    @contextmanager
    def gathering(self) -> Generator[None]:
        """Keep a fault of the block for later."""
        try:
            yield
        except ConfigurationError as error:
            self.add_error(error)

    def add(self, sentences: Iterable[str]) -> None:
        """Keep sentences."""
        self._sentences += sentences

    def add_error(self, error: ConfigurationError) -> None:
        """Keep an error, with all that it consists of."""
        if isinstance(error, Faults):
            self.add(error.sentences)
            self._missing = self._missing or error.missing
        else:
            self.add([str(error)])

    def refuse(self) -> None:
        """Raise what was gathered.

        Raises:
            Faults: If there is any.
        """
        if self._sentences or self._missing:
            raise Faults(self._sentences, self._missing)


def _text(sentences: Sequence[str], missing: str) -> str:
    if len(sentences) > 1:
        sentences = [f"{len(sentences)} settings are wrong:", *(f"  {sentence}" for sentence in sentences)]
    return "\n".join([*sentences, *([missing] if missing else ())])
