"""Takes the screenshots for the documentation: `python -m tests.e2e.screenshots [folder]`."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.e2e.scenes import SCENES
from tests.e2e.stage import DESKTOP, PHONE, launch, look, raised

_LOOKS = {"phone": (PHONE, "light"), "phone-dark": (PHONE, "dark"), "desktop": (DESKTOP, "light")}
_SHOWN = ("home", "consent", "waiting", "done", "declined", "problem", "gone")


def take(folder: Path, *, scenes: tuple[str, ...] = _SHOWN, language: str = "en") -> None:
    """Show each scene in each look and keep a picture of the whole page."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, raised() as stage:
        browser = launch(playwright)
        for name, (size, scheme) in _LOOKS.items():
            window = look(browser, size=size, scheme=scheme, language=language)
            page = window.new_page()
            for scene in scenes:
                SCENES[scene](stage, page)
                page.screenshot(path=folder / f"{scene}-{name}.png", full_page=True)
            window.close()
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/screenshots"))
