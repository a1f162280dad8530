"""Narrates what a user sees in the browser."""

from collections.abc import Mapping
from itertools import groupby

from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.sandbox.person import Page, picked


class PageNarrator:
    """Narrates the pages in a user's browser; `places` names the server of an address."""

    def __init__(self, narrator: Narrator, places: Mapping[str, str]) -> None:
        self._narrator = narrator
        self._places = places
        self._ticks: tuple[str, ...] = ()
        self._shown: set[str] = set()

    def begin(self, ticks: tuple[str, ...]) -> None:
        """Begin a consent request in which the user allows these scopes."""
        self._ticks = ticks
        self._shown.clear()

    def __call__(self, page: Page) -> None:
        """Narrate a page, once even if it is shown repeatedly."""
        if page.title in self._shown:
            return
        self._shown.add(page.title)
        whose = next((name for url, name in self._places.items() if page.url.startswith(url)), "Our")
        self._narrator.item(f"{whose} page “{(page.heading or page.title).rstrip('.')}”")
        for group, choices in groupby(page.choices, key=lambda choice: choice.group):
            row = list(choices)
            wanted = picked([choice.name for choice in row], self._ticks)
            chosen = [choice for choice in row if choice.name in wanted]
            for choice in chosen or [choice for choice in row if choice.name.endswith(":off")]:
                self._narrator.say(f"    {group}: {choice.label}")
