"""Takes the screenshots for the documentation: `python -m tests.e2e.screenshots [folder]`."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.client_page_cases import PICTURED_CASES
from tests.e2e.multi_user_page_cases import PEOPLE_CASES
from tests.e2e.multi_user_server import raised_multi_user
from tests.e2e.page_cases import PAGE_CASES
from tests.e2e.single_user_server import PHONE, WindowOptions, chromium_options, raised, window_options

# Narrower than a real desktop: only the card matters, not the empty space around it.
_PAPER = (640, 700)

SHOTS: dict[str, tuple[str, WindowOptions]] = {
    "consent": ("consent", window_options(size=_PAPER)),
    "consent-dark": ("consent", window_options(size=_PAPER, scheme="dark")),
    "consent-phone": ("consent", window_options(size=PHONE)),
    "consent-apps": ("consent-every-app", window_options(size=(640, 1850))),
    "waiting": ("waiting", window_options(size=_PAPER)),
    "done": ("done", window_options(size=_PAPER)),
}
PEOPLE_SHOTS: dict[str, tuple[str, WindowOptions]] = {
    "people-consent": ("people-consent", window_options(size=_PAPER)),
    "connected-as": ("connected-as", window_options(size=_PAPER)),
    "other-account": ("other-account", window_options(size=_PAPER)),
    "account": ("account", window_options(size=(760, 700))),
    "account-phone": ("account", window_options(size=PHONE, scheme="dark")),
}
CLIENT_SHOTS: dict[str, tuple[str, WindowOptions]] = {
    "authorize": ("authorize", window_options(size=(640, 760))),
    "authorize-phone": ("authorize-cursor", window_options(size=PHONE)),
    "signed-in-as": ("signed-in-as", window_options(size=_PAPER)),
    "sent": ("sent-copied", window_options(size=_PAPER)),
    "account-apps": ("account-of-a-household", window_options(size=(760, 700), scheme="dark")),
}


def take(folder: Path) -> None:
    """Open each documented page and store a picture of it.

    The clock stands still and animations are stopped, so that pictures change only with pages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    with (
        sync_playwright() as playwright,
        raised() as harness,
        raised_multi_user() as people,
        raised_multi_user(lets_clients_in=True) as clients,
    ):
        browser = playwright.chromium.launch(**chromium_options())
        for name, (case, options) in SHOTS.items():
            harness.consent.forget()
            with _shot(browser, options, folder / f"{name}.png") as page:
                PAGE_CASES[case](harness, page)
        for name, (case, options) in PEOPLE_SHOTS.items():
            people.consent_service.forget()
            with _shot(browser, options, folder / f"{name}.png") as page:
                PEOPLE_CASES[case](people, page)
        for name, (case, options) in CLIENT_SHOTS.items():
            clients.clients.forget()
            with _shot(browser, options, folder / f"{name}.png") as page:
                PICTURED_CASES[case](clients, page)
        browser.close()


@contextmanager
def _shot(browser: Browser, options: WindowOptions, path: Path) -> Generator[Page]:
    window = browser.new_context(**options)
    page = window.new_page()
    yield page
    page.screenshot(path=path, full_page=True, animations="disabled")
    window.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/screenshots"))
