"""Someone who looks at every page on the way as axe does."""

from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page


@dataclass(frozen=True, slots=True)
class AccessibilityCheck:
    """Holds axe; it is evaluated by the debugger, so the page's policy stays as it is."""

    axe: str

    async def on(self, page: Page) -> None:
        """Find nothing to complain about, and nothing that is wider than the screen."""
        await page.evaluate(self.axe)
        found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        nodes = [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]
        assert nodes == [], page.url
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), page.url
