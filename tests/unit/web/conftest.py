from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.memory_consent_service import MemoryConsentService
from tests.memory_consent_service import browser_of as people_browser
from tests.single_user_pages import SingleUserPages, browser_of, open_single_user_pages


@pytest.fixture
async def consent(tmp_path: Path, template: Path) -> AsyncGenerator[SingleUserPages]:
    async with open_single_user_pages(tmp_path, template) as opened:
        yield opened


@pytest.fixture
async def browser(consent: SingleUserPages) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: keeps cookies, requests pages, sends the origin of its forms."""
    async with browser_of(consent) as client:
        yield client


@pytest.fixture
def consent_service() -> MemoryConsentService:
    return MemoryConsentService()


@pytest.fixture
async def people(consent_service: MemoryConsentService) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser for the pages of many users."""
    async with people_browser(consent_service) as client:
        yield client
