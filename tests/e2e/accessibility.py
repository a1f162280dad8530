"""Checks pages with axe."""

from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page


@dataclass(frozen=True, slots=True)
class AccessibilityCheck:
    """Holds axe; it is evaluated by the debugger, so the page's content security policy is unchanged."""

    axe: str

    async def on(self, page: Page) -> None:
        """Fail for a violation, and for anything wider than the screen."""
        await page.evaluate(self.axe)
        found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        nodes = [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]
        assert nodes == [], page.url
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), page.url
