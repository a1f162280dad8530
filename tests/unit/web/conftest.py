from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.memory_consent import ORIGIN, MemoryConsent, application
from tests.memory_consent_service import MemoryConsentService, browser_of


@pytest.fixture
def consent() -> MemoryConsent:
    return MemoryConsent()


@pytest.fixture
async def browser(consent: MemoryConsent) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: keeps cookies, requests pages, sends the origin of its forms."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(application(consent)),
        base_url=ORIGIN,
        headers={"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"},
    ) as client:
        yield client


@pytest.fixture
def consent_service() -> MemoryConsentService:
    return MemoryConsentService()


@pytest.fixture
async def people(consent_service: MemoryConsentService) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser for the pages of many users."""
    async with browser_of(consent_service) as client:
        yield client
