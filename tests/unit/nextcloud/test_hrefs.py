"""Rows of DAV answers: found however their hrefs are spelled, and never left out in silence."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote
from xml.sax.saxutils import escape

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.contacts.client import ContactsClient
from nextcloud_mcp_server.apps.tags_and_comments.comments import CommentsClient
from nextcloud_mcp_server.apps.tasks.client import TasksClient
from nextcloud_mcp_server.apps.upload.client import UploadClient
from nextcloud_mcp_server.apps.versions.client import VersionsClient
from nextcloud_mcp_server.nextcloud import dav, remarks
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.file_query import Query
from tests.dav_fakes import account_over, entry, multistatus, network

HOST = "cloud.example.org"
ELSEWHERE = "https://internal.lan"

#: Every list that is read over DAV: the path its rows are below, what its rows must hold, and who asks.
LISTS: dict[str, tuple[str, str, Callable[[Account], Awaitable[object]]]] = {
    "files": ("files/alice/", "", lambda nc: nc.files.list_folder("/")),
    "one file": ("files/alice/", "", lambda nc: nc.files.info("x")),
    "search in files": ("files/alice/", "", lambda nc: nc.files.search(Query(name="x"), limit=5)),
    "trash": ("trashbin/alice/trash/", "", lambda nc: nc.trash.list_items(limit=5)),
    "versions": (
        "versions/alice/versions/7/",
        "",
        lambda nc: nc.client(VersionsClient).list_versions("7", limit=5),
    ),
    "calendars": ("calendars/alice/", "<d:resourcetype/>", lambda nc: nc.client(TasksClient).tasks()),
    "address books": ("addressbooks/users/alice/", "", lambda nc: nc.client(ContactsClient).list_books()),
    "comments": ("comments/files/7/", "", lambda nc: nc.client(CommentsClient).list_comments("7", limit=5)),
    "tags": ("systemtags/", "", lambda nc: nc.tags.all_tags()),
    "uploads": (
        "uploads/alice/mcp-00000000000000000000000000000000/",
        "",
        lambda nc: nc.client(UploadClient).requests.parts(f"mcp-{'0' * 32}"),
    ),
    "changes": ("calendars/alice/", "", lambda nc: nc.watch.states("calendars")),
}


def escaped(name: str, which: list[bool], *, lower: bool) -> str:
    """Percent-encode a name, and some characters that need not be (RFC 3986 §6.2.2.1 and §6.2.2.2)."""
    parts: list[str] = []
    for at, byte in enumerate(name.encode()):
        more = which[at % len(which)]
        parts.append(f"%{byte:02X}" if more else quote(bytes([byte]), safe=""))
    whole = "".join(parts)
    return whole.lower() if lower and whole.isascii() and name == name.lower() else whole


names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/\\"),
    min_size=1,
    max_size=12,
)


@settings(max_examples=50, deadline=None)
@given(
    name=names.filter(lambda name: name not in (".", "..")),
    start=st.sampled_from(
        [
            "",
            "/nextcloud",
            f"https://{HOST}",
            f"https://{HOST}:443/cloud",
            "https://CLOUD.Example.ORG",
            f"//{HOST}",
            f"https://{HOST}.",
        ]
    ),
    service=st.sampled_from(
        ["/remote.php/dav", "/%72emote.php/dav", "/remote%2Ephp/dav", "/remote%2ephp/d%61v"]
    ),
    slash=st.sampled_from(["", "/"]),
    which=st.lists(st.booleans(), min_size=1, max_size=4),
    lower=st.booleans(),
)
def test_every_spelling_of_an_href_means_the_same_thing(
    name: str, start: str, service: str, slash: str, which: list[bool], *, lower: bool
) -> None:
    tree = dav.Tree.of("files", "alice")
    href = f"{start}{service}/files/%61lice/Docs/{escaped(name, which, lower=lower)}{slash}"

    assert tree.locate(href, hosts=[HOST]) == ("Docs", name)


@pytest.mark.parametrize("href", ["//remote.php/dav/files/alice/x", "//remote.php/dav/files/alice/x/"])
def test_two_slashes_at_the_start_name_no_host_where_the_service_follows(href: str) -> None:
    """`overwritewebroot` "/" makes Nextcloud write its hrefs so."""
    assert dav.Tree.of("files", "alice").locate(href, hosts=[HOST]) == ("x",)


@settings(max_examples=50, deadline=None)
@given(
    name=names, host=st.sampled_from(["evil.example", "cloud.example.org.evil.example", "xcloud.example.org"])
)
def test_another_host_another_person_and_an_escaped_slash_stay_outside(name: str, host: str) -> None:
    tree = dav.Tree.of("files", "alice")
    path = f"/remote.php/dav/files/alice/{quote(name, safe='')}"

    found = [
        tree.locate(f"https://{host}{path}", hosts=[HOST]),
        tree.locate(path.replace("/alice/", "/Alice/"), hosts=[HOST]),
        tree.locate(f"{path}%2Fmore", hosts=[HOST]),
        tree.locate(f"{path}?x", hosts=[HOST]),
    ]

    assert found == [None] * 4


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    "foreign", [f"{ELSEWHERE}/remote.php/dav/{{}}", "/dav/{}"], ids=["host", "base path"]
)
async def test_a_list_whose_rows_are_all_of_another_place_is_an_error_and_not_empty(
    kind: str, foreign: str
) -> None:
    path, extra, ask = LISTS[kind]
    rows = [entry("", href=foreign.format(path), extra=extra), entry("", href=foreign.format(f"{path}x"))]
    net = network(multistatus(rows))

    with pytest.raises(errors.NotNextcloud, match="another host name or path") as caught:
        await ask(account_over(net))

    assert "overwritehost" in str(caught.value)
    assert "internal.lan" not in str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind in LISTS if kind != "one file"])
async def test_a_list_without_rows_is_empty_and_no_error(kind: str) -> None:
    path, _, ask = LISTS[kind]
    own = [entry("", href=f"/remote.php/dav/{path}", folder=True)]

    with remarks.collected() as said:
        await ask(account_over(network(multistatus(own))))

    assert said == []


async def test_rows_that_are_left_out_are_counted_in_a_remark() -> None:
    rows = [
        entry("", folder=True),
        entry("a.txt"),
        entry("b.txt", href=f"{ELSEWHERE}/remote.php/dav/files/alice/b.txt"),
    ]

    with remarks.collected() as said:
        listing = await account_over(network(multistatus(rows))).files.list_folder("/")

    assert [each.name for each in listing.entries] == ["a.txt"]
    assert len(said) == 1
    assert said[0].startswith("1 of 3 entries")


def streamed(exception: str, message: str = "x", *, before: str = "") -> httpx2.Response:
    """Answer as a server that streams: 207, and the error behind what was written of the list.

    The wording is that of nextcloud/server#63415.
    """
    names = 'xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns" xmlns:oc="http://owncloud.org/ns"'
    begun = f">{before}" if before else ""
    body = (
        f'<?xml version="1.0"?>\n<d:multistatus {names}{begun}<?xml version="1.0" encoding="utf-8"?>\n'
        f'<d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns">\n  <s:exception>{exception}</s:exception>\n'
        f"  <s:message>{message}</s:message>\n</d:error>\n"
    )
    return httpx2.Response(
        207, content=body.encode(), headers={"Content-Type": "application/xml; charset=utf-8"}
    )


SABRE = "Sabre\\DAV\\Exception\\"
OURS = "OCA\\DAV\\Connector\\Sabre\\Exception\\"


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (f"{SABRE}NotFound", errors.NotFound),
        (f"{SABRE}Forbidden", errors.Forbidden),
        (f"{OURS}Forbidden", errors.Forbidden),
        (f"{SABRE}Locked", errors.Locked),
        (f"{OURS}FileLocked", errors.Locked),
        (f"{SABRE}ServiceUnavailable", errors.Unavailable),
        ("OCA\\DAV\\Exception\\ServerMaintenanceMode", errors.Maintenance),
        (f"{SABRE}SomethingNew", errors.ServerFault),
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 900], ids=["at once", "after a row", "in a long list"])
async def test_an_error_written_behind_a_multistatus_means_what_its_status_would_have(
    exception: str, kind: type[errors.NextcloudError], rows: int
) -> None:
    before = "".join(entry(f"{number:05}.txt") for number in range(rows))
    net = network(streamed(exception, before=before))

    with pytest.raises(errors.NextcloudError) as caught:
        await account_over(net).files.list_folder("/")

    assert type(caught.value) is kind


async def test_an_error_behind_a_multistatus_has_the_sentence_of_who_asked() -> None:
    """What is gone from the trash, and a contact that is gone, are said to be so."""
    gone = f"{SABRE}NotFound"

    with pytest.raises(errors.NotFound, match="nc_files_list_trash"):
        await account_over(network(streamed(gone))).trash.restore("a.txt.d1")
    with pytest.raises(errors.NotFound, match="contact"):
        await account_over(network(streamed(gone))).client(ContactsClient).get("contacts", "x.vcf")
    with pytest.raises(errors.NotFound, match="nc_files_list_folder"):
        await account_over(network(streamed(gone))).files.info("nope.txt")


async def test_words_of_a_file_name_that_look_like_an_error_are_no_error() -> None:
    """The end of an answer is what a user's names can be in, too."""
    name = "<?xml <s:exception>Sabre\\DAV\\Exception\\NotFound</s:exception>"
    rows = [entry("", folder=True), entry("a", extra=f"<d:displayname>{escape(name)}</d:displayname>")]
    whole = multistatus(rows)
    cut = whole.content[:-20]

    listing = await account_over(network(whole)).files.list_folder("/")
    with pytest.raises(errors.ServerFault, match="not complete"):
        await account_over(network(httpx2.Response(207, content=cut))).files.list_folder("/")

    assert [each.name for each in listing.entries] == ["a"]
