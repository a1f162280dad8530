"""Why a consent request failed: a code and its values are stored, and each reader words them in its own language."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, cast

#: The likely causes of a sign-in at Nextcloud that does not end; `program` is the name of this one.
STOPPED: Final = (
    "If Nextcloud stopped the user, its page says why: its administrator has to allow the program name {program!r},"
    " or the user has to set up two-factor authentication first."
)

#: What clients and the log are told. The pages have their own sentence for each code, in every language.
SENTENCES: Final[Mapping[str, str]] = MappingProxyType({
    "opened_by_others": "Another user opened the link several times, so it was closed; ask your assistant for a new"
    " one.",
    "took_too_long": f"The sign-in at Nextcloud took too long; ask your assistant again. {STOPPED}",
    "not_accepted": "Nextcloud did not accept the access it had just given.",
    "not_yours": "Nextcloud answered for {answered!r}, but your account is {yours!r}. Nothing was stored."
    " Sign in to Nextcloud as {yours!r} and try again.",
    "other_connected": "Nextcloud answered for {answered!r}, but {connected!r} is connected here."
    " Nothing was stored. Sign in to Nextcloud as {connected!r} and connect again.",
    "account_taken": "The Nextcloud account {answered!r} is connected to another person here."
    " Nothing was stored. If the account is yours, ask the operator of this server to release it.",
})  # fmt: skip

_UNKNOWN: Final = "It did not work."


@dataclass(frozen=True, slots=True)
class Failure:
    """A code of `SENTENCES` and the values of its sentence.

    Earlier versions stored an English sentence. Such a row has an empty code, and its sentence as a value.
    """

    code: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Return the failure that an exception was raised with."""
        what = error.args[0] if error.args else ""
        return what if isinstance(what, Failure) else cls("", {"sentence": str(what)})

    def __str__(self) -> str:
        """Return the sentence in English."""
        if self.is_known:
            return SENTENCES[self.code].format(**self.values)
        return self.values.get("sentence") or _UNKNOWN

    @property
    def is_known(self) -> bool:
        """Whether this version has a sentence for it; a row of another version may have other codes and values."""
        names = (name for _, name, _, _ in Formatter().parse(SENTENCES.get(self.code, "")) if name)
        return self.code in SENTENCES and all(name in self.values for name in names)

    def packed(self) -> str:
        """Serialize it for a row."""
        return json.dumps({"code": self.code, **self.values})

    @classmethod
    def unpacked(cls, text: str) -> "Failure":
        """Parse what a row has; an earlier version's sentence is kept as one."""
        try:
            values: Any = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, dict) or "code" not in values:
            return cls("", {"sentence": text})
        given = {key: str(value) for key, value in cast("dict[str, object]", values).items()}
        return cls(given.pop("code"), given)
