import os
from collections.abc import AsyncIterator

import pytest

from tests.contract.server import Server, open_real, open_sandbox


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """The sandbox, or the Nextcloud of NEXTCLOUD_TEST_URL and NEXTCLOUD_TEST_USERS."""
    base, users = os.environ.get("NEXTCLOUD_TEST_URL"), os.environ.get("NEXTCLOUD_TEST_USERS")
    if base and users:
        async with open_real(base.rstrip("/"), users) as real:
            yield real
    else:
        async with open_sandbox() as sandbox:
            yield sandbox
