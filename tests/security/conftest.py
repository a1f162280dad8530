from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests import consent_fixtures
from tests.authorization_pages import AuthorizationPages, open_authorization_pages
from tests.integration.personal_app import Asked, PersonalApp, open_personal_app
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


@pytest.fixture
async def personal_app(tmp_path: Path) -> AsyncGenerator[PersonalApp]:
    async with open_personal_app(tmp_path / "data", Sandbox.demo()) as made:
        yield made


@pytest.fixture
def asked(personal_app: PersonalApp) -> Asked:
    """An elicitation callback for the SDK's client."""
    return Asked(personal_app)


@pytest.fixture
async def people(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, who confirm on a page that an account is theirs."""
    async with consent_fixtures.open_consent_service(tmp_path, template) as made:
        yield made


@pytest.fixture
async def mapped(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, whose accounts are in a claim of the identity provider."""
    async with consent_fixtures.open_consent_service(
        tmp_path, template, mapping_claim="preferred_username"
    ) as made:
        yield made


@pytest.fixture
async def following(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, who confirm in login flows; the identity provider names their accounts."""
    async with consent_fixtures.open_consent_service(
        tmp_path, template, mapping_claim="preferred_username", follows=True
    ) as made:
        yield made
