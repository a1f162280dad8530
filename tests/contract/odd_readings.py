"""The table of `test_odd_answers.py`: which function reads which recorded response."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import unquote

import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.apps.bookmarks.client import Bookmark
from nextcloud_mcp_server.apps.calendar.client import CalendarClient
from nextcloud_mcp_server.apps.cookbook.client import Recipe
from nextcloud_mcp_server.apps.deck.models import Card
from nextcloud_mcp_server.apps.sharing.client import Share
from nextcloud_mcp_server.apps.tables.client import Row
from nextcloud_mcp_server.apps.upload.chunk_requests import Target
from nextcloud_mcp_server.apps.upload.client import UploadClient
from nextcloud_mcp_server.auth import oauth_client
from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential, BearerCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.oauth2_admin import OAuth2Admin
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.contract.recording import Recording, load
from tests.dav_fakes import call

HOST: Final = "http://nextcloud.test"
_NUMBER: Final = re.compile(r"\d+")
_SECRET: Final = SecretStr("12345678")
#: In the form of Nextcloud's codes: any other is never sent.
_CODE: Final = SecretStr("c0de" * 32)


@dataclass
class Answering:
    """A network that answers a request like a recorded one with a given body, and others as recorded."""

    recording: Recording
    beside: "tuple[str | Made, ...]" = ()
    at: tuple[str, str] | None = None
    body: bytes = b""
    asked: int = 0
    _prepared: dict[tuple[str, str], tuple[Recording, bytes]] = field(
        default_factory=dict[tuple[str, str], tuple[Recording, bytes]]
    )

    def __post_init__(self) -> None:
        for name in self.beside:
            if isinstance(name, Made):
                self._prepared[name.place] = (load(name.like), name.text.encode())
            else:
                one = load(name)
                self._prepared[_place(one.method, one.path)] = (one, one.text.encode())

    @property
    def _own(self) -> tuple[str, str]:
        return _place(*(self.at or (self.recording.method, self.recording.path)))

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        place = _place(request.method, request.url.raw_path.decode())
        other = self._prepared.get(place)
        if other is not None and place != self._own:
            return answer_of(*other)
        self.asked += 1
        return answer_of(self.recording, self.body)


@dataclass(frozen=True)
class Made:
    """A response that was not recorded, derived from a recorded one."""

    method: str
    path: str
    like: str
    body: object = None

    @property
    def text(self) -> str:
        """The body, or that of the recording."""
        if self.body is None:
            return load(self.like).text
        return self.body if isinstance(self.body, str) else json.dumps(self.body)

    @property
    def place(self) -> tuple[str, str]:
        return _place(self.method, self.path)


@dataclass(frozen=True)
class Person:
    """The objects with which a reading is done."""

    account: Account
    nextcloud: Nextcloud
    pool: httpx2.AsyncClient

    @classmethod
    def over(cls, answering: Answering) -> "Person":
        pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answering))
        url = NextcloudUrl.parse(HOST)
        http = NextcloudHttp(pool, url, credential=BasicCredential("alice", _SECRET), uid="alice")
        return cls(Account(http), Nextcloud(url, pool), pool)


@dataclass(frozen=True)
class Reading:
    """Recordings (names, with `*` for any text), and one call that reads them."""

    recordings: str
    read: Callable[[Person], Awaitable[object]]
    #: The responses to other requests of that call.
    beside: "tuple[str | Made, ...]" = ()
    #: The request that is answered with the recording, if it differs from the recorded one.
    at: tuple[str, str] | None = None

    def holds(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.recordings.split())


def answer_of(recording: Recording, body: bytes) -> httpx2.Response:
    dropped = ("content-length", "set-cookie", "content-encoding", "x-user-id")
    headers = {name: text for name, text in recording.answer_headers.items() if name not in dropped}
    return httpx2.Response(recording.status, headers=headers, stream=httpx2.ByteStream(body))


def _place(method: str, path: str) -> tuple[str, str]:
    """Return what a request is for: without its query and ids, and for DAV only the tree."""
    where = path.partition("?")[0]
    if where.startswith("/remote.php/"):
        where = "/".join(where.split("/")[:4])
    return method, _NUMBER.sub("#", where).replace("v#.#", "v#")


def tool(called: str, /, **arguments: object) -> Callable[[Person], Awaitable[object]]:
    """Read by calling a tool."""

    async def read(person: Person) -> object:
        return await call(person.account, called, **arguments)

    return read


# Arguments that go with what was recorded

_CARD: Final = Card.model_validate(load("deck/card_get").json).etag
_ROW: Final = Row.model_validate(load("tables/row_get").json).etag
_RECIPE: Final = Recipe.model_validate(load("cookbook/recipe_get").json).etag
_BOOKMARK: Final = {
    "bookmark_id": 116,
    "etag": Bookmark.model_validate(load("bookmarks/get_200").json["item"]).etag,
}
_SHARE: Final = Share.model_validate(load("shares/get").json["ocs"]["data"][0]).version
_NOTE: Final = load("notes/get").json["etag"]
_PLACE: Final[dict[str, Any]] = {"board_id": 2, "stack_id": 9, "card_id": 11}
_DAYS: Final = {"start": "2026-01-01", "end": "2026-02-01"}
_EVENT: Final = "rec-cal/ev1.ics"
_FORM: Final = load("forms/get").json["ocs"]["data"]
_COLLECTIVE: Final = load("collectives/create").json["ocs"]["data"]
_PAGE: Final = load("collectives/pages").json["ocs"]["data"]["pages"][0]
_ISSUER: Final = load("oidc/discovery").json["issuer"]
_KEY: Final = load("oidc/jwks").json["keys"][0]
_CLIENT: Final = OAuthClient("client", _SECRET)


def _ocs(data: object) -> object:
    return {"ocs": {"meta": {"status": "ok", "statuscode": 200, "message": "OK"}, "data": data}}


_FORMS: Final = Made("GET", "/ocs/v2.php/apps/forms/api/v3/forms", "forms/list", _ocs([_FORM]))
_ONE_PAGE: Final = Made(
    "GET",
    "/ocs/v2.php/apps/collectives/api/v1.0/collectives/1/pages/365",
    "collectives/pages",
    _ocs({"page": _PAGE}),
)


def _outgoing(person: Person) -> Outgoing:
    return Outgoing(person.pool)


async def _discovered(person: Person) -> object:
    return await Discovery(_ISSUER, _outgoing(person)).get()


async def _key(person: Person) -> object:
    outgoing = _outgoing(person)
    return await KeySet(Discovery(_ISSUER, outgoing), outgoing).key(_KEY["kid"], "RS256")


async def _introspected(person: Person) -> object:
    outgoing = _outgoing(person)
    return await Introspection(Discovery(_ISSUER, outgoing), outgoing, client=("client", _SECRET)).ask(
        "token"
    )


async def _exchanged(person: Person) -> object:
    return await oauth_client.exchange_code(
        _outgoing(person),
        f"{HOST}/apps/oidc/token",
        _CLIENT,
        code=_SECRET,
        redirect_uri=HOST,
        verifier=None,
        now=lambda: datetime.now(UTC),
        needs=frozenset({"openid"}),
    )


async def _refreshed(person: Person) -> object:
    return await oauth_client.refresh(
        _outgoing(person),
        f"{HOST}/apps/oidc/token",
        _CLIENT,
        refresh_token=_SECRET,
        now=lambda: datetime.now(UTC),
    )


async def _nextcloud_exchanged(person: Person) -> object:
    return await person.nextcloud.oauth2.exchange_code(client_id="c", client_secret=_SECRET, code=_CODE)


async def _nextcloud_refreshed(person: Person) -> object:
    return await person.nextcloud.oauth2.refresh(client_id="c", client_secret=_SECRET, refresh_token=_SECRET)


async def _registered(person: Person) -> object:
    admin = OAuth2Admin(
        person.pool, NextcloudUrl.parse(HOST), credential=BasicCredential("admin", _SECRET), uid="admin"
    )
    return await admin.register(name="x", redirect_uri=HOST)


async def _whoami(person: Person) -> object:
    return await person.nextcloud.whoami(BearerCredential(_SECRET))


async def _storage_id(person: Person) -> object:
    return await person.nextcloud.storage_id(BasicCredential("alice", _SECRET), uid="alice")


async def _ended(person: Person) -> object:
    return await person.nextcloud.delete_app_password(BasicCredential("alice", _SECRET))


async def _server_info(person: Person) -> object:
    return await person.nextcloud.server_info()


async def _flow_started(person: Person) -> object:
    return await person.nextcloud.login.start()


async def _flow_polled(person: Person) -> object:
    return await person.nextcloud.login.poll(_SECRET)


async def _capabilities(person: Person) -> object:
    return await person.account.capabilities.get()


async def _parts(person: Person) -> object:
    return await person.account.client(UploadClient).requests.parts(f"mcp-{'0' * 32}")


async def _part_sent(person: Person) -> object:
    return await person.account.client(UploadClient).requests.put(f"mcp-{'0' * 32}", 1, b"x")


async def _assembled(person: Person) -> object:
    return await person.account.client(UploadClient).requests.assemble(
        f"mcp-{'0' * 32}", Target(("x",), None), total=1
    )


async def _addresses(person: Person) -> object:
    return await person.account.client(CalendarClient).addresses()


async def _etag(person: Person) -> object:
    return await person.account.watch.etag("files", "/Rec/plain.txt")


async def _states(person: Person) -> object:
    return await person.account.watch.states("calendars")


_WITH_COMMENT: Final = Made(
    "GET", load("deck/card_get").path, "deck/card_get", {**load("deck/card_get").json, "commentsCount": 1}
)
_WITH_STACKS: Final = Made(
    "GET",
    load("deck/board_get").path,
    "deck/board_get",
    {**load("deck/board_get").json, "stacks": load("deck/stacks_list").json},
)
_DECK: Final = (
    Reading("deck/boards_* auth/*_deck_* oidc/bearer_deck_*", tool("nc_deck_list_boards")),
    Reading(
        "deck/board_* newer_apps/deck19_board_*", tool("nc_deck_get_board", board_id=2), ("deck/stacks_list",)
    ),
    Reading(
        "deck/stack* newer_apps/deck19_stack*",
        tool("nc_deck_get_board", board_id=2, archived=True),
        ("deck/board_get",),
    ),
    Reading("deck/stacks_list", tool("nc_deck_get_board", board_id=2, query="card"), ("deck/board_get",)),
    Reading(
        "deck/card_get* deck/card_update* newer_apps/deck19_card_get* newer_apps/deck19_card_put_*",
        tool("nc_deck_get_card", **_PLACE),
        ("deck/comments_list",),
    ),
    Reading("deck/comments_list", tool("nc_deck_get_card", **_PLACE), (_WITH_COMMENT,)),
    Reading(
        "deck/card_create* deck/board_get newer_apps/deck19_card_create",
        tool("nc_deck_create_card", board_id=2, stack_id=9, title="x", labels=["Later"], assignees=["alice"]),
        (
            "deck/board_get",
            "deck/card_get",
            "deck/card_create",
            "deck/card_assign_label",
            "deck/card_assign_user",
        ),
    ),
    Reading(
        "deck/card_get deck/card_update* deck/board_get deck/comment_create",
        tool(
            "nc_deck_update_card", **_PLACE, etag=_CARD, title="x", labels=["Later"], comment="x", done=True
        ),
        (
            "deck/board_get",
            "deck/card_get",
            "deck/card_update",
            "deck/card_assign_label",
            "deck/comment_create",
        ),
    ),
    Reading(
        "deck/card_assign* deck/label_create newer_apps/deck19_card_assign_label",
        tool("nc_deck_update_card", **_PLACE, etag=_CARD, labels=["Later"], assignees=["alice"]),
        ("deck/board_get", "deck/card_get"),
    ),
    Reading(
        "deck/card_reorder deck/board_get deck/card_get newer_apps/deck19_card_reorder_*",
        tool("nc_deck_move_card", **_PLACE, etag=_CARD, to_stack_id=9, position=0),
        (_WITH_STACKS, "deck/card_get", "deck/card_reorder"),
    ),
    Reading(
        "deck/card_delete deck/card_get",
        tool("nc_deck_delete_card", **_PLACE, etag=_CARD),
        ("deck/card_get",),
    ),
)
_NOTES: Final = (
    Reading(
        "notes/get* newer_apps/notes6_get* */*_notes_* */*_notes oauth2_builtin/06_token_as_*",
        tool("nc_notes_get_note", note_id=1),
    ),
    Reading("notes/list_* */*_notes_list oidc/bearer_notes_*", tool("nc_notes_list_notes", favorite=True)),
    Reading("notes/list_* newer_apps/notes6_list notes/unknown_*", tool("nc_notes_search_notes", query="x")),
    Reading(
        "notes/create* newer_apps/notes6_create notes/concurrent_create_*",
        tool("nc_notes_create_note", title="x", content="y"),
    ),
    Reading(
        "notes/update_* newer_apps/notes6_put_* notes/concurrent_update_*",
        tool("nc_notes_update_note", note_id=1, etag=_NOTE, content="x", favorite=True),
        ("notes/get",),
    ),
    Reading(
        "notes/update_* notes/concurrent_update_* notes/get notes/get_locked notes/get_exclude_content",
        tool("nc_notes_append_content", note_id=1, content="x"),
        ("notes/get", "notes/update_title"),
    ),
    Reading(
        "notes/update_title notes/get",
        tool("nc_notes_edit_note", note_id=1, old_text="e", new_text="x", etag=_NOTE),
        ("notes/get", "notes/update_title"),
    ),
    Reading(
        "notes/delete_* newer_apps/notes6_delete*",
        tool("nc_notes_delete_note", note_id=1),
        ("notes/get", "notes/delete_200"),
    ),
    Reading(
        "notes/attachment_* newer_apps/notes6_attachment_*",
        tool("nc_notes_get_attachment", note_id=1, path="x.png"),
    ),
)
_TABLE: Final = Made(
    "GET", "/index.php/apps/tables/api/1/tables/2", "tables/tables_list", load("tables/tables_list").json[-1]
)
_TABLES: Final = (
    Reading(
        "tables/tables_list newer_apps/tables2_tables_list tables/list_* oidc/bearer_tables*",
        tool("nc_tables_list_tables"),
    ),
    Reading(
        "tables/table_get_* tables/columns_list tables/rows_* "
        "newer_apps/tables2_columns_list newer_apps/tables2_rows_list newer_apps/tables2_table_get*",
        tool("nc_tables_get_table", table_id=2),
        (_TABLE, "tables/columns_list", "tables/rows_list"),
    ),
    Reading(
        "tables/table_create newer_apps/tables2_table_create*",
        tool("nc_tables_get_table", table_id=2),
        ("tables/columns_list", "tables/rows_list"),
        at=("GET", "/index.php/apps/tables/api/1/tables/2"),
    ),
    Reading(
        "tables/columns_list tables/rows_list",
        tool("nc_tables_get_table", table_id=2, query="x", where={"Count": ">2", "Name": "x"}),
        (_TABLE, "tables/columns_list", "tables/rows_list"),
    ),
    Reading(
        "tables/row_get tables/columns_list",
        tool("nc_tables_get_table", table_id=2, row_id=1),
        (_TABLE, "tables/columns_list", "tables/row_get"),
    ),
    Reading(
        "tables/row_create* tables/columns_list newer_apps/tables2_row_create",
        tool("nc_tables_create_row", table_id=2, values={"Name": "x", "Count": 3}),
        ("tables/columns_list", "tables/row_create"),
    ),
    Reading(
        "tables/row_update tables/row_get tables/columns_list newer_apps/tables2_row_update",
        tool("nc_tables_update_row", row_id=1, values={"Name": "x", "Count": 3}, etag=_ROW),
        ("tables/columns_list", "tables/row_get", "tables/row_update"),
    ),
    Reading(
        "tables/row_delete tables/row_get newer_apps/tables2_row_delete",
        tool("nc_tables_delete_row", row_id=1, etag=_ROW),
        ("tables/columns_list", "tables/row_get"),
    ),
)
_SMALL_APPS: Final = (
    Reading("cookbook/recipes_* oidc/bearer_cookbook_*", tool("nc_cookbook_list_recipes", query="k")),
    Reading("cookbook/recipe_get*", tool("nc_cookbook_get_recipe", recipe_id=359)),
    Reading("cookbook/recipe_create*", tool("nc_cookbook_save_recipe", name="x"), ("cookbook/recipe_get",)),
    Reading(
        "cookbook/recipe_update_* cookbook/recipe_get",
        tool("nc_cookbook_save_recipe", recipe_id=359, etag=_RECIPE, name="x"),
        (
            "cookbook/recipe_get",
            Made("PUT", "/index.php/apps/cookbook/api/v1/recipes/359", "cookbook/recipe_get", 359),
        ),
    ),
    Reading(
        "cookbook/recipe_delete cookbook/recipe_get",
        tool("nc_cookbook_delete_recipe", recipe_id=359, etag=_RECIPE),
        ("cookbook/recipe_get",),
    ),
    Reading("collectives/list collectives/create", tool("nc_collectives_list_pages")),
    Reading("collectives/pages", tool("nc_collectives_list_pages", collective_id=1)),
    Reading(
        "collectives/page_create_* collectives/pages",
        tool("nc_collectives_create_page", collective_id=1, title="x", content="y"),
        (
            "collectives/pages",
            Made(
                "POST",
                "/ocs/v2.php/apps/collectives/api/v1.0/collectives/1/pages/365",
                "collectives/pages",
                _ocs({"page": _PAGE}),
            ),
            "webdav/propfind_file_depth0",
            "webdav/put_update_if_match_204",
        ),
    ),
    Reading("forms/list oidc/bearer_forms_*", tool("nc_forms_list_forms", query="r")),
    Reading(
        "forms/get* forms/submissions",
        tool("nc_forms_get_form", form_id=1),
        (_FORMS, "forms/get", "forms/submissions"),
    ),
)
_SHARES: Final = (
    Reading(
        "shares/put_*",
        tool("nc_files_write_file", path="/Rec/plain.txt", content="x"),
        ("webdav/propfind_file_depth0",),
    ),
    Reading("shares/list_*", tool("nc_sharing_list_shares", received=True)),
    Reading(
        "shares/list_*",
        tool("nc_sharing_list_shares", path="/Rec/plain.txt"),
        ("webdav/propfind_file_depth0",),
    ),
    Reading(
        "shares/create_* shares/sharees_search",
        tool("nc_sharing_share_item", path="/Rec/plain.txt", person="bob", access="view", note="x"),
        (
            "webdav/propfind_file_depth0",
            "shares/sharees_search",
            "shares/create_user",
            "shares/list_path",
            "shares/update_expire",
        ),
    ),
    Reading(
        "shares/create_*",
        tool("nc_sharing_create_link", path="/Rec/plain.txt", expires="2030-01-01"),
        ("webdav/propfind_file_depth0", "shares/create_link"),
    ),
    Reading(
        "shares/get* shares/update_*",
        tool("nc_sharing_update_share", share_id="1", etag=_SHARE, note="x"),
        ("shares/get", "shares/update_expire", "webdav/propfind_file_depth0"),
    ),
    Reading(
        "shares/get* shares/delete_*",
        tool("nc_sharing_delete_share", share_id="1", etag=_SHARE),
        ("shares/get", "shares/delete_200"),
    ),
)
_PEOPLE: Final = (
    Reading(
        "user/self* user/users_* auth/*_ocs_* auth/*_ocs auth/*wrong_password* auth/unknown_user_*", _whoami
    ),
    Reading(
        "oauth2_builtin/*_bearer_ocs oauth2_builtin/08_* oidc/*_ocs_user user/ocs_* auth/bruteforce_att*",
        _whoami,
    ),
    Reading(
        "user/autocomplete user/user_status",
        tool("nc_status_get_status", person="bob"),
        ("user/autocomplete", "user/user_status"),
    ),
    Reading("user/user_status", tool("nc_status_get_status")),
    Reading(
        "misc/user_status_put user/user_status",
        tool("nc_status_set_status", status="away"),
        ("misc/user_status_put", "user/user_status"),
    ),
    Reading("capabilities/* oidc/*_capabilities auth/*_capabilities maintenance/*", _capabilities),
    Reading("capabilities/status_php maintenance/status_php", _server_info),
    Reading("maintenance/ocs", _whoami),
    Reading("auth/apppassword_*", _ended),
    Reading(
        "unified_search/*",
        tool("nc_search_find_items", query="x"),
        ("unified_search/providers", "unified_search/files"),
    ),
    Reading(
        "unified_search/*",
        tool("search", query="x"),
        ("unified_search/providers", "unified_search/files", "notes/list_all"),
    ),
)
_SIGN_IN: Final = (
    Reading("login_flow_v2/01* auth/*_login_v2", _flow_started),
    Reading("login_flow_v2/02* login_flow_v2/08* login_flow_v2/09*", _flow_polled),
    Reading("oauth2_builtin/05* oauth2_builtin/1*", _nextcloud_exchanged),
    Reading("oauth2_builtin/07* oauth2_builtin/09*", _nextcloud_refreshed),
    Reading("oauth2_builtin/client_create", _registered),
    Reading("oidc/discovery* oidc/wellknown_*", _discovered),
    Reading("oidc/jwks oidc/discovery", _key, ("oidc/discovery", "oidc/jwks")),
    Reading("oidc/introspect_*", _introspected, ("oidc/discovery",)),
    Reading("oidc/token_* oidc/jwt_token_*", _exchanged),
    Reading("oidc/refresh_*", _refreshed),
)
_TRASHED: Final = unquote(re.findall(r"trash/([^/<]+)</d:href>", load("trashbin/list").text)[0])
_FILE: Final = "webdav/propfind_file_depth0"
_FILES: Final = (
    Reading("webdav/propfind_*", tool("nc_files_list_folder", path="/Rec")),
    Reading(
        "webdav/propfind_file_depth0 webdav/propfind_part*", tool("nc_files_get_info", path="/Rec/plain.txt")
    ),
    Reading(
        "webdav/propfind_* auth/*_dav_* auth/*_dav oidc/*_webdav oauth2_builtin/*_dav maintenance/dav",
        _storage_id,
    ),
    Reading(_FILE, _etag),
    Reading("webdav/get_*", tool("nc_files_read_file", path="/Rec/plain.txt"), (_FILE,)),
    Reading("webdav/search_*", tool("nc_files_search_items", name="x")),
    Reading("webdav/report_*", tool("nc_files_search_items", favorite=True)),
    Reading(
        "webdav/put_* webdav/concurrent_put_*",
        tool("nc_files_write_file", path="/Rec/plain.txt", content="x"),
        (_FILE, "webdav/put_update_if_match_204"),
    ),
    Reading(
        "webdav/propfind_file_depth0 webdav/get_*",
        tool("nc_files_edit_file", path="/Rec/plain.txt", old_text="e", new_text="x"),
        (_FILE, "webdav/get_200", "webdav/put_update_if_match_204"),
    ),
    Reading(
        "webdav/mkcol_* webdav/concurrent_mkcol_*", tool("nc_files_create_folder", path="/Rec/a"), (_FILE,)
    ),
    Reading(
        "webdav/move_* webdav/propfind_file_depth0",
        tool("nc_files_move_item", source="/Rec/plain.txt", destination="/Rec/b"),
        (_FILE, "webdav/move_201"),
    ),
    Reading(
        "webdav/copy_*", tool("nc_files_copy_item", source="/Rec/plain.txt", destination="/Rec/b"), (_FILE,)
    ),
    Reading("webdav/delete_*", tool("nc_files_delete_item", path="/Rec/plain.txt"), (_FILE, "trashbin/list")),
    Reading(
        "trashbin/list", tool("nc_files_delete_item", path="/Rec/plain.txt"), (_FILE, "webdav/delete_204")
    ),
    Reading("trashbin/list", tool("nc_files_list_trash")),
    Reading("trashbin/*", tool("nc_files_restore_trash", trash_id=_TRASHED), ("trashbin/list",)),
    Reading("versions/*", tool("nc_files_list_versions", path="/Rec/plain.txt"), (_FILE,)),
    Reading(
        "versions/restore_* versions/get_on_*",
        tool(
            "nc_files_restore_version",
            path="/Rec/plain.txt",
            version_id="1",
            etag="f74afba60ce349d2a8af1421d1c6444f",
        ),
        (_FILE,),
        at=("MOVE", "/remote.php/dav/versions/"),
    ),
    Reading("systemtags/*", tool("nc_files_list_tags")),
    Reading("systemtags/*", tool("nc_files_list_tags", path="/Rec/plain.txt"), (_FILE,)),
    Reading(
        "systemtags/list systemtags/report_*",
        tool("nc_files_search_items", tag="rec-tag"),
        ("systemtags/list", "systemtags/report_files_by_tag"),
    ),
    Reading(
        "systemtags/* webdav/proppatch_*",
        tool(
            "nc_files_set_labels",
            path="/Rec/plain.txt",
            add_tags=["new"],
            remove_tags=["rec-tag"],
            favorite=True,
        ),
        (
            _FILE,
            "systemtags/list",
            "systemtags/create_201",
            "systemtags/assign_201",
            "webdav/proppatch_favorite",
        ),
    ),
    Reading("comments/*", tool("nc_files_list_comments", path="/Rec/plain.txt"), (_FILE,)),
    Reading("comments/*", tool("nc_files_add_comment", path="/Rec/plain.txt", text="x"), (_FILE,)),
    Reading("webdav/chunked_*", _parts),
    Reading("webdav/chunked_1* webdav/chunked_put_*", _part_sent),
    Reading("webdav/chunked_07_* webdav/chunked_09_*", _assembled),
)
_HOME: Final = "caldav/home_propfind"
_BOOKS: Final = "carddav/home_propfind"
_EVENTS: Final = "caldav/report_query_all"
_TODO: Final = Made(
    "GET", "/remote.php/dav/calendars/", "caldav/get_event", load("caldav/put_vtodo_201").body.decode()
)
_EVENT_ETAG: Final = load("caldav/get_event").answer_headers["etag"].strip('"')
_AT_BOOKS: Final = ("PROPFIND", "/remote.php/dav/addressbooks/")
_AS_STORED: Final = Made(*_AT_BOOKS, "carddav/report_multiget")
_CONTACT: Final[dict[str, Any]] = {
    "book": "rec-book", "contact_id": "c1.vcf", "etag": "2a8b83b46d499d724221542aa6fc9e42"
}  # fmt: skip
_CALENDARS: Final = (
    Reading(
        "caldav/home_propfind caldav/*_home caldav/bob_* caldav/mkcalendar_* oidc/*_caldav",
        tool("nc_calendar_list_calendars"),
    ),
    Reading(_HOME, _states),
    Reading("caldav/discovery_*", _addresses),
    Reading(
        "caldav/report_* caldav/home_propfind", tool("nc_calendar_list_events", **_DAYS), (_HOME, _EVENTS)
    ),
    Reading(
        "caldav/report_*", tool("nc_calendar_list_events", calendar="rec-cal", **_DAYS), (_HOME, _EVENTS)
    ),
    Reading("caldav/report_query_range", tool("nc_calendar_find_free_time", **_DAYS), (_HOME, _EVENTS)),
    Reading(
        "caldav/report_multiget_* caldav/report_query_range caldav/get_* caldav/trashbin_*",
        tool("nc_calendar_get_event", event_id=_EVENT),
        (_HOME,),
    ),
    Reading(
        "caldav/put_*",
        tool("nc_calendar_create_event", title="x", start="2026-01-10", calendar="rec-cal"),
        (_HOME, _EVENTS, "caldav/put_create_201"),
    ),
    Reading(
        "caldav/put_* caldav/get_event",
        tool("nc_calendar_update_event", event_id=_EVENT, etag=_EVENT_ETAG, title="x"),
        (_HOME, _EVENTS, "caldav/put_update_204", "caldav/get_event"),
    ),
    Reading(
        "caldav/delete_2* caldav/delete_404 caldav/delete_st* caldav/get_event",
        tool("nc_calendar_delete_event", event_id=_EVENT, etag=_EVENT_ETAG),
        (_HOME, _EVENTS, "caldav/delete_204", "caldav/get_event"),
    ),
    Reading(
        "caldav/report_query_vtodo", tool("nc_tasks_list_tasks", status="all", calendar="rec-cal"), (_HOME,)
    ),
    Reading(_HOME, tool("nc_tasks_list_tasks", status="all"), ("caldav/report_query_vtodo",)),
    Reading(
        "caldav/put_*",
        tool("nc_tasks_create_task", title="x", calendar="rec-cal", due="2026-01-10"),
        (_HOME, "caldav/report_query_vtodo", "caldav/put_create_201"),
    ),
    Reading(
        "caldav/put_*",
        tool(
            "nc_tasks_update_task", task_id="rec-cal/todo1.ics", etag=_EVENT_ETAG, title="x", completed=True
        ),
        (_HOME, _TODO, "caldav/put_update_204"),
    ),
    Reading(
        "caldav/delete_404",
        tool("nc_tasks_delete_task", task_id="rec-cal/todo1.ics", etag=_EVENT_ETAG),
        (_TODO,),
    ),
    Reading("carddav/home_propfind", tool("nc_contacts_list_address_books")),
    Reading(
        "carddav/report_* carddav/home_propfind carddav/system_addressbook",
        tool("nc_contacts_search_contacts", query="z"),
        (_BOOKS, "carddav/report_query"),
    ),
    Reading(
        "carddav/report_*",
        tool("nc_contacts_get_contact", book="rec-book", contact_id="c1.vcf"),
        at=_AT_BOOKS,
    ),
    Reading("carddav/put_* carddav/*_put_404", tool("nc_contacts_create_contact", name="x", book="rec-book")),
    Reading(
        "carddav/put_*",
        tool("nc_contacts_update_contact", **_CONTACT, name="x", emails=["x@example.test"]),
        (_AS_STORED,),
    ),
    Reading(
        "carddav/report_*",
        tool("nc_contacts_update_contact", **_CONTACT, name="x", emails=["x@example.test"]),
        ("carddav/put_update_204",),
        at=_AT_BOOKS,
    ),
    Reading(
        "carddav/report_*",
        tool("nc_contacts_delete_contact", **_CONTACT),
        ("carddav/delete_204",),
        at=_AT_BOOKS,
    ),
)
_BOOKMARKS: Final = (
    Reading("bookmarks/find_*", tool("nc_bookmarks_find_bookmarks", query="hecken", tags=["winter"])),
    Reading(
        "bookmarks/find_* bookmarks/create_*",
        tool("nc_bookmarks_save_bookmark", url="https://new.example.invalid/", title="x"),
        ("bookmarks/find_empty_200", "bookmarks/create_200"),
    ),
    Reading(
        "bookmarks/get_* bookmarks/update_*",
        tool("nc_bookmarks_save_bookmark", **_BOOKMARK, title="x"),
        ("bookmarks/get_200", "bookmarks/update_200"),
    ),
    Reading(
        "bookmarks/folders_*",
        tool("nc_bookmarks_save_bookmark", **_BOOKMARK, folders=["12"]),
        ("bookmarks/get_200", "bookmarks/update_200"),
    ),
    Reading(
        "bookmarks/get_* bookmarks/trash_200",
        tool("nc_bookmarks_delete_bookmark", **_BOOKMARK),
        ("bookmarks/get_200", "bookmarks/trash_200"),
    ),
)
READINGS: Final = (
    *_DECK,
    *_NOTES,
    *_TABLES,
    *_SMALL_APPS,
    *_BOOKMARKS,
    *_SHARES,
    *_PEOPLE,
    *_SIGN_IN,
    *_FILES,
    *_CALENDARS,
)
#: Responses that no function reads, with the reason.
_MADE_BY_HAND: Final = "no tool makes, changes or deletes these as a whole; the recording set up another one"
_NO_READER: Final = "nothing here asks for this"
NOT_READ: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "bookmarks/folder_create_200", "caldav/proppatch_displayname", "carddav/get_card", "collectives/delete",
            "collectives/trash",
            "forms/create", "forms/delete", "forms/question_create", "forms/update", "tables/column_create_number",
            "tables/column_create_text", "tables/table_delete", "newer_apps/tables2_column_create",
            "newer_apps/tables2_table_delete",
        ),
        _MADE_BY_HAND,
    ),
    **dict.fromkeys(
        (
            "auth/getapppassword_with_app_password_403", "auth/getapppassword_with_real_password", "misc/preview_404",
            "notes/settings_get", "notes/settings_put", "notes/settings_put_bad_suffix", "notes/settings_put_reset",
            "oidc/dcr_disabled", "oidc/dcr_register", "user/notifications", "webdav/lock_method",
        ),
        _NO_READER,
    ),
    **dict.fromkeys(
        ("oidc/userinfo", "oidc/userinfo_bad_token", "oidc/userinfo_old_token_after_refresh"),
        "read in the middle of a sign-in, whose answers tests/security/test_user_binding_oidc.py tampers with",
    ),
}  # fmt: skip
