"""Fixtures of the tests of pages: the servers of a module, each with an empty database in every test.

A `conftest.py` imports them by name, so that only the tests of pages load what pages need.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.authorization_pages import AuthorizationPages, open_authorization_pages
from tests.multi_user_pages import MultiUserPages, open_multi_user_pages
from tests.single_user_pages import SingleUserPages, browser_of, open_single_user_pages


@pytest.fixture(scope="module")
async def single_user_pages(
    tmp_path_factory: pytest.TempPathFactory, template: Path
) -> AsyncGenerator[SingleUserPages]:
    async with open_single_user_pages(tmp_path_factory.mktemp("pages"), template) as opened:
        yield opened


@pytest.fixture
def consent(single_user_pages: SingleUserPages) -> SingleUserPages:
    """The pages of a single-user server, with an empty database."""
    single_user_pages.forget()
    return single_user_pages


@pytest.fixture
async def browser(consent: SingleUserPages) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: keeps cookies, requests pages, sends the origin of its forms."""
    async with browser_of(consent) as client:
        yield client


@pytest.fixture(scope="module")
async def multi_user_pages(
    tmp_path_factory: pytest.TempPathFactory, template: Path
) -> AsyncGenerator[MultiUserPages]:
    async with open_multi_user_pages(tmp_path_factory.mktemp("pages"), template) as opened:
        yield opened


@pytest.fixture(scope="module")
async def all_authorization_pages(
    tmp_path_factory: pytest.TempPathFactory, template: Path
) -> AsyncGenerator[AuthorizationPages]:
    async with open_authorization_pages(tmp_path_factory.mktemp("pages"), template) as opened:
        yield opened


@pytest.fixture
def authorization_pages(all_authorization_pages: AuthorizationPages) -> AuthorizationPages:
    """The pages of authorization requests, with an empty database."""
    all_authorization_pages.forget()
    return all_authorization_pages


@pytest.fixture
def consent_service(multi_user_pages: MultiUserPages) -> MultiUserPages:
    """The pages of a multi-user server, with an empty database."""
    multi_user_pages.forget()
    return multi_user_pages
