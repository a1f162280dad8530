"""The root of everything this program raises on purpose, and the link that an error may lead to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A page that the user can open, and the sentence that follows it in an answer."""

    url: str
    then: str


class NextcloudMcpError(Exception):
    """Base of everything raised on purpose; `str()` is a sentence that may be shown, without a link.

    `link` is a page of this server that helps the user, where there is one.
    """

    def __init__(self, *args: object, link: Link | None = None) -> None:
        super().__init__(*args)
        self.link = link
