from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.multi_user_pages import MultiUserPages
from tests.multi_user_pages import browser_of as multi_user_browser
from tests.page_fixtures import (
    all_authorization_pages,
    authorization_pages,
    browser,
    consent,
    consent_service,
    multi_user_pages,
    single_user_pages,
)

#: pytest finds the fixtures by these names.
__all__ = [
    "all_authorization_pages",
    "authorization_pages",
    "browser",
    "consent",
    "consent_service",
    "multi_user_pages",
    "single_user_pages",
]


@pytest.fixture
async def people(consent_service: MultiUserPages) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser for the pages of many users."""
    async with multi_user_browser(consent_service) as client:
        yield client
