"""The Nextcloud server and one user's account on it, with the clients of all apps."""

from collections.abc import Callable
from contextlib import aclosing
from datetime import tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary

import anyio
import httpx2
from pydantic import Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import concurrency_limiter, dav, entries, releases
from nextcloud_mcp_server.nextcloud.app_client import AppClient, Connection
from nextcloud_mcp_server.nextcloud.capabilities import CapabilitiesClient
from nextcloud_mcp_server.nextcloud.content_cache import CachedContent, ContentCache, Topic
from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.files import FilesClient
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.trash import TrashClient
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.nextcloud.user import User, UserClient
from nextcloud_mcp_server.nextcloud.user_cache import SeenFiles, UserCache, UserCaches
from nextcloud_mcp_server.nextcloud.watch import WatchClient

if TYPE_CHECKING:
    # The types only: each client is imported with its first use, because most servers do without.
    from nextcloud_mcp_server.nextcloud.download import DownloadClient
    from nextcloud_mcp_server.nextcloud.file_search import FileSearch
    from nextcloud_mcp_server.nextcloud.login_flow import LoginFlowClient
    from nextcloud_mcp_server.nextcloud.login_pages import LoginPages
    from nextcloud_mcp_server.nextcloud.menu import MenuClient
    from nextcloud_mcp_server.nextcloud.oauth2 import OAuth2Client
    from nextcloud_mcp_server.nextcloud.search import SearchClient
    from nextcloud_mcp_server.nextcloud.tags import TagsClient
    from nextcloud_mcp_server.nextcloud.theming import Theming

C = TypeVar("C", bound=AppClient)

_OLDEST = 28


def _no_cached_content(_: Topic) -> None:
    """Discard the content: the default where nothing is cached."""


class Account:
    """One user's access to Nextcloud, as tools get it."""

    def __init__(
        self,
        http: NextcloudHttp,
        *,
        wide: NextcloudHttp | None = None,
        cached_content: Callable[[Topic], CachedContent[Any]] | None = None,
        cache: UserCache | None = None,
    ) -> None:
        self.uid = http.uid
        self.web = str(http.web)
        self.files = FilesClient(http)
        self.trash = TrashClient(http)
        self.user = UserClient(http)
        self.capabilities = CapabilitiesClient(http)
        self._http = http
        self._cache = cache or UserCache()
        self._connection = Connection(http, wide, cached_content or _no_cached_content, self._cache)
        self._clients: dict[type[AppClient], AppClient] = {}
        self._wide = wide

    @cached_property
    def download(self) -> "DownloadClient":
        """Streams whole files, however large."""
        from nextcloud_mcp_server.nextcloud.download import DownloadClient  # noqa: PLC0415 - see above

        return DownloadClient(self._http)

    @cached_property
    def menu(self) -> "MenuClient":
        """Reads the apps in the user's menu."""
        from nextcloud_mcp_server.nextcloud.menu import MenuClient  # noqa: PLC0415 - see above

        return MenuClient(self._http)

    @cached_property
    def watch(self) -> WatchClient:
        """Checks whether data has changed."""
        return WatchClient(self._http)

    @cached_property
    def tags(self) -> "TagsClient":
        """Tags and favourites."""
        from nextcloud_mcp_server.nextcloud.tags import TagsClient  # noqa: PLC0415 - see above

        return TagsClient(self._http)

    @cached_property
    def search(self) -> "SearchClient":
        """What Nextcloud's unified search finds."""
        from nextcloud_mcp_server.nextcloud.search import SearchClient  # noqa: PLC0415 - see above

        return SearchClient(self._http, wide=self._wide, cache=self._cache)

    @cached_property
    def file_search(self) -> "FileSearch":
        """Searches files by attributes, tags or content."""
        from nextcloud_mcp_server.nextcloud.file_search import FileSearch  # noqa: PLC0415 - see above

        return FileSearch(self._http, files=self.files, tags=self.tags, search=self.search, cache=self._cache)

    @property
    def seen_files(self) -> SeenFiles:
        """What was found out about files that were read."""
        return self._cache.files

    def client(self, kind: type[C]) -> C:
        """Return the client of an app, built at its first use: `nc.client(DeckClient)`."""
        found = self._clients.get(kind)
        if found is None:
            found = self._clients[kind] = kind.from_connection(self._connection)
        return cast("C", found)

    async def zone(self) -> tzinfo:
        """Fetch the user's time zone; UTC where Nextcloud does not know it."""
        from nextcloud_mcp_server.nextcloud import user_zone  # noqa: PLC0415 - reads the names of all time zones

        return await user_zone.of(self._http)

    @property
    def changes(self) -> int:
        """Count the requests of this account so far that were not reads."""
        return self._http.changes


class ServerInfo(Answer):
    """The content of `status.php`, which is public."""

    installed: bool
    maintenance: bool
    needs_upgrade: bool = Field(default=False, validation_alias="needsDbUpgrade")
    version: str = Field(validation_alias="versionstring", pattern=r"^\d+\.")
    product_name: str = Field(default="Nextcloud", validation_alias="productname")


class Nextcloud:
    """The configured Nextcloud; one per server process."""

    def __init__(
        self, url: NextcloudUrl, pool: httpx2.AsyncClient, *, public_url: NextcloudUrl | None = None
    ) -> None:
        self._url, self._pool, self._public_url = url, pool, public_url
        self._warned = set[str]()
        self._anonymous = self._http(None, uid="")
        # By uid, and weak: shared by all accounts of a user that are open, since a new account is opened every few
        # seconds.
        self._limiters = WeakValueDictionary[str, concurrency_limiter.ConcurrencyLimiter]()
        self._caches = UserCaches()
        self._many = anyio.Semaphore(concurrency_limiter.ALL_WIDE_AT_ONCE, fast_acquire=True)
        #: Notes and calendars of users, cached between calls.
        self.content_cache = ContentCache()

    def account(self, credential: NextcloudCredential, *, uid: str) -> Account:
        """Return an account for one user; sends no request."""
        cache = self._caches.of(uid)
        # Kept beyond the call, so that the next call knows whether its credential works.
        cache.limiter = limiter = self._limiters.setdefault(uid, concurrency_limiter.ConcurrencyLimiter())
        return Account(
            self._http(credential, uid=uid, limiter=limiter.of(credential)),
            wide=self._http(credential, uid=uid, limiter=limiter.widely(credential, self._many)),
            cached_content=partial(CachedContent[Any], self.content_cache, uid, credential),
            cache=cache,
        )

    def forget(self, uid: str) -> None:
        """Drop the cached content of a user, when the access to the account ends."""
        self.content_cache.drop(uid)
        self._caches.drop(uid)

    @property
    def login(self) -> "LoginFlowClient":
        """Starts and polls Login Flow v2."""
        from nextcloud_mcp_server.nextcloud.login_flow import LoginFlowClient  # noqa: PLC0415 - see above

        return LoginFlowClient(self._anonymous, public_url=self._public_url or self._url, warned=self._warned)

    @property
    def login_pages(self) -> "LoginPages":
        """Opens the pages of Login Flow v2 as a browser would."""
        from nextcloud_mcp_server.nextcloud.login_pages import LoginPages  # noqa: PLC0415 - see above

        return LoginPages(self._pool, self._url, public_url=self._public_url)

    @property
    def oauth2(self) -> "OAuth2Client":
        """Requests and refreshes tokens of Nextcloud's own app `oauth2`."""
        from nextcloud_mcp_server.nextcloud.oauth2 import OAuth2Client  # noqa: PLC0415 - see above

        return OAuth2Client(self._anonymous, public_url=self._public_url or self._url)

    async def theming(self) -> "Theming | None":
        """Fetch the name, colour and logo that Nextcloud gives itself; None where it has none."""
        from nextcloud_mcp_server.nextcloud import theming  # noqa: PLC0415 - see above

        return await theming.read(self._anonymous)

    async def whoami(self, credential: NextcloudCredential) -> User:
        """Fetch the user to whom a credential belongs."""
        user = await UserClient(self._http(credential, uid="")).get()
        if (limiter := self._limiters.get(user.uid)) is not None:
            limiter.forgive(credential)
        return user

    async def storage_id(self, credential: NextcloudCredential, *, uid: str) -> str | None:
        """Fetch the storage id of a user's home; a deleted and re-created account has another one."""
        asked = self._http(credential, uid=uid).stream(
            "PROPFIND",
            dav.Tree.of("files", uid).url(),
            headers={**dav.XML_HEADERS, "Depth": "0"},
            content=dav.propfind(["oc:id"]),
            timeout_seconds=60,
        )
        async with asked as response, aclosing(entries.responses_of(response)) as found:
            ids = [one.text("oc:id") async for some in found for one in some]
        return ids[0] or None if ids else None

    async def delete_app_password(self, credential: NextcloudCredential) -> bool:
        """Revoke a credential at Nextcloud, using the credential itself; False when Nextcloud did not know it.

        A rejected app password no longer exists. A rejected access token may only have expired; its refresh token may
        still be valid.

        Raises:
          Forbidden: The secret is the account's real password.
        """
        self.content_cache.drop_credential(credential)
        http = self._http(credential, uid="")
        try:
            await http.request("DELETE", "/ocs/v2.php/core/apppassword", params={"format": "json"})
        except errors.CredentialRejected:
            return False
        return True

    async def server_info(self) -> ServerInfo:
        """Fetch `status.php` and check that it is a supported Nextcloud.

        Raises:
          NotNextcloud: Something else answers at that address.
          TooOld: Its version is not supported.
          Unreachable: Nothing answers.
        """
        try:
            response = await self._anonymous.request(
                "GET", "/status.php", max_bytes=65_536, timeout_seconds=15
            )
            status = decoded(response, TypeAdapter(ServerInfo))
        except (
            errors.NotNextcloud,
            errors.NotFound,
            errors.Forbidden,
            errors.CredentialRejected,
            errors.ServerFault,
            errors.TooLarge,
        ) as error:
            if page := self._url.page:
                address = str(self._url).removesuffix(page)
                raise errors.NotNextcloud(
                    f"NEXTCLOUD_HOST ends in {page}, which is a page of Nextcloud and not its address. Set it to "
                    f"{address}"
                ) from None
            if isinstance(error, errors.NotNextcloud):
                raise
            raise errors.NotNextcloud(
                "Something answers at NEXTCLOUD_HOST, but it is not a Nextcloud. Check the host and whether "
                "Nextcloud is installed below a path such as /nextcloud."
            ) from None
        if not status.installed:
            raise errors.NotNextcloud(
                "The Nextcloud at NEXTCLOUD_HOST is not set up yet. Finish its installation."
            )
        if (releases.major_of(status.version) or 0) < _OLDEST:
            raise errors.TooOld(
                f"This is Nextcloud {status.version}; version {_OLDEST} or newer is needed. Upgrade it."
            )
        return status

    def _http(
        self,
        credential: NextcloudCredential | None,
        *,
        uid: str,
        limiter: concurrency_limiter.UserLimiter | None = None,
    ) -> NextcloudHttp:
        return NextcloudHttp(
            self._pool,
            self._url,
            credential=credential,
            uid=uid,
            public_url=self._public_url,
            limiter=limiter,
        )
