"""The differences between the major versions of Nextcloud and its apps.

32 is recorded from a whole server. Notes 6.0.2, Tables 2.2.2 and Deck 1.19.0-beta.1 were recorded alone;
the rest of 33 to 35 follows the source of the server and of Talk.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

ProfileName = Literal["32", "33", "34", "35"]

#: What `--sandbox-version` takes, the oldest first.
NAMES: Final[tuple[ProfileName, ...]] = get_args(ProfileName)
USUAL: Final[ProfileName] = "34"

_DECK_WITH_DONE_COLUMN = (1, 18)
_DECK_THAT_KEEPS_COLORS = (1, 19)


@dataclass(frozen=True, slots=True)
class Profile:
    """One version of Nextcloud, with the versions of the apps that belong to it."""

    server: str
    notes: str
    tables: str
    deck: str
    talk: str
    #: The second use of a code or refresh token is refused at once, even where both come together.
    atomic_tokens: bool = True
    #: Registering an OAuth client takes the account's own password.
    confirms_passwords: bool = True
    #: Talk has a permission of its own for reactions.
    react_permission: bool = True
    absent_apps: frozenset[str] = frozenset()

    @property
    def newer_notes(self) -> bool:
        """Whether an error of the Notes app names no class (6.0)."""
        return _numbers(self.notes) >= (6,)

    @property
    def newer_tables(self) -> bool:
        """Whether one's own tables carry permissions that say nothing (2.0)."""
        return _numbers(self.tables) >= (2,)

    @property
    def done_column(self) -> bool:
        """Whether a Deck stack may be the one for what is done (1.18)."""
        return _numbers(self.deck) >= _DECK_WITH_DONE_COLUMN

    @property
    def keeps_colors(self) -> bool:
        """Whether a Deck card keeps its color where a PUT does not name one (1.19)."""
        return _numbers(self.deck) >= _DECK_THAT_KEEPS_COLORS


PROFILES: Final = MappingProxyType[ProfileName, Profile](
    {
        "32": Profile(
            server="32.0.1",
            notes="5.0.2",
            tables="1.0.9",
            deck="1.16.7",
            talk="22.0.2",
            atomic_tokens=False,
            confirms_passwords=False,
            react_permission=False,
        ),
        "33": Profile(
            server="33.0.7",
            notes="6.0.2",
            tables="2.2.2",
            deck="1.17.0",
            talk="23.0.0",
            confirms_passwords=False,
            react_permission=False,
        ),
        "34": Profile(server="34.0.3", notes="6.0.2", tables="2.2.2", deck="1.18.3", talk="24.0.0"),
        "35": Profile(
            server="35.0.0",
            notes="6.0.2",
            tables="2.2.2",
            deck="1.19.0",
            talk="25.0.0",
            # Their last releases end at 34 (`appinfo/info.xml` of Forms 5.3.5, News 28.7.0, Cookbook 0.11.9).
            absent_apps=frozenset({"forms", "news", "cookbook"}),
        ),
    }
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
