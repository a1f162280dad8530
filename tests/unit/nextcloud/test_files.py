from datetime import UTC, datetime

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.file_order import position
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.nextcloud.files import FilesClient
from tests.dav_fakes import MOMENT, SECONDS, Network, entry, http_over, multistatus, network, recorded

READ_HEADERS = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Type": "text/plain;charset=UTF-8"}
MISSING = recorded("webdav/propfind_404")


def client(net: Network, uid: str = "alice") -> FilesClient:
    return FilesClient(http_over(net, uid=uid))


async def test_a_folder_lists_what_a_real_nextcloud_answers() -> None:
    net = network(recorded("webdav/propfind_no_body_depth1"))

    listing = await client(net).list_folder("Rec")

    assert listing.folder.path == "Rec"
    assert listing.total == len(listing.entries)
    assert {"100% done.txt", "a+b.txt", "hash#tag.txt", "Ünï cödé 日本"} <= {
        each.name for each in listing.entries
    }
    assert net.seen[0].headers["Depth"] == "1"
    assert net.seen[0].url.raw_path == b"/remote.php/dav/files/alice/Rec"


async def test_a_folder_is_known_by_its_resource_type_and_not_by_the_slash_behind_its_href() -> None:
    """RFC 4918 §5.2: the slash is only a SHOULD, and what is written with one need be no collection."""
    net = network(
        multistatus(
            [
                entry("Rec", folder=True, href="/remote.php/dav/files/alice/Rec"),
                entry("Rec/in", folder=True, href="/remote.php/dav/files/alice/Rec/in"),
                entry("Rec/a.txt", href="/remote.php/dav/files/alice/Rec/a.txt/"),
            ]
        )
    )

    listing = await client(net).list_folder("Rec")

    assert listing.folder.is_folder
    assert [(each.name, each.is_folder) for each in listing.entries] == [("in", True), ("a.txt", False)]
    assert b"resourcetype" in net.seen[0].content


async def test_only_direct_children_are_listed_and_never_the_folder_itself() -> None:
    """B08: Nextcloud 31.0.8 answers grandchildren; hrefs of others are dropped as well."""
    net = network(
        multistatus(
            [
                entry("Docs", folder=True),
                entry("Docs/a.txt"),
                entry("Docs/sub", folder=True),
                entry("Docs/sub/grandchild.txt"),
                entry("Other/b.txt"),
                entry("c", href="/remote.php/dav/files/bob/Docs/c.txt"),
            ]
        )
    )

    listing = await client(net).list_folder("/Docs/")

    assert [each.name for each in listing.entries] == ["sub", "a.txt"]
    assert listing.total == 2


async def test_the_top_folder_of_a_uid_with_a_space_does_not_list_itself() -> None:
    """B10."""
    net = network(multistatus([entry("", uid="anne marie", folder=True), entry("x", uid="anne marie")]))

    listing = await client(net, "anne marie").list_folder()

    assert [each.path for each in listing.entries] == ["x"]
    assert listing.folder.name == ""


async def test_a_folder_asked_for_in_nfd_is_the_one_answered_in_nfc() -> None:
    """B07."""
    net = network(multistatus([entry("Caf\u00e9", folder=True), entry("Caf\u00e9/x")]))

    listing = await client(net).list_folder("Cafe\u0301")

    assert [each.path for each in listing.entries] == ["Caf\u00e9/x"]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("name", ["Z", "a", "B", "c"]),
        ("size", ["B", "Z", "c", "a"]),
        ("modified", ["c", "a", "B", "Z"]),
    ],
)
async def test_pages_follow_each_other_in_every_order(order: str, names: list[str]) -> None:
    body = [
        entry("", folder=True),
        entry("a", size=None),
        entry("B", size=9, modified="Thu, 26 Nov 2026 21:03:53 GMT"),
        entry("c", size=3, modified="Sat, 28 Nov 2026 21:03:53 GMT"),
        entry("Z", folder=True, size=5, modified="nonsense"),
    ]
    net = network(*(multistatus(body) for _ in range(4)))
    files, after, more = client(net), None, True
    seen: list[str] = []

    while more:
        listing = await files.list_folder(order=order, limit=1, after=after)  # pyright: ignore[reportArgumentType]
        seen += [each.name for each in listing.entries]
        after, more = position(listing.entries[-1], order), listing.more  # pyright: ignore[reportArgumentType]

    assert seen == names
    assert len(net.seen) == 4


async def test_listing_a_file_or_something_else_is_refused() -> None:
    net = network(multistatus([entry("a")]), multistatus([entry("b", folder=True)]), MISSING)
    files = client(net)

    with pytest.raises(errors.InvalidInput, match="nc_files_read_file"):
        await files.list_folder("a")
    with pytest.raises(errors.ServerFault):
        await files.list_folder("a")
    with pytest.raises(errors.NotFound, match="no 'a'"):
        await files.list_folder("a")


async def test_details_hold_everything_known() -> None:
    extra = (
        "<oc:fileid>7</oc:fileid><oc:permissions>SRGDNVW</oc:permissions>"
        "<oc:owner-display-name>Bob</oc:owner-display-name><oc:favorite>1</oc:favorite>"
        "<oc:share-types><oc:share-type>0</oc:share-type><oc:share-type>3</oc:share-type></oc:share-types>"
        "<nc:sharees><nc:sharee><nc:display-name>Carol</nc:display-name></nc:sharee></nc:sharees>"
        "<nc:system-tags><nc:system-tag>red</nc:system-tag></nc:system-tags><oc:tags><oc:tag>mine</oc:tag></oc:tags>"
        "<d:quota-used-bytes>5</d:quota-used-bytes><d:quota-available-bytes>-3</d:quota-available-bytes>"
    )
    net = network(multistatus([entry("a", extra=extra)]))

    found, details = await client(net).details("a")

    assert (found.favourite, found.size, found.etag) == (True, 3, "e1")
    assert (details.file_id, details.permissions, details.owner) == ("7", "SRGDNVW", "Bob")
    assert (details.share_types, details.shared_with) == (("0", "3"), ("Carol",))
    assert details.tags == ("red", "mine")
    assert (details.quota_used, details.quota_available, details.files_inside) == (5, -3, None)


async def test_an_answer_about_something_else_is_refused() -> None:
    net = network(multistatus([entry("b")]))

    with pytest.raises(errors.ServerFault, match="nothing about 'a'"):
        await client(net).info("a")


async def test_what_a_server_writes_oddly_stays_unknown() -> None:
    extra = "<d:getcontentlength>x</d:getcontentlength>"
    net = network(multistatus([entry("a", size=None, etag=None, modified="Fri, 99", extra=extra)]))

    found = await client(net).info("a")

    assert (found.size, found.etag, found.modified_at) == (None, None, None)


async def test_part_of_a_file_comes_with_the_facts_of_all_of_it() -> None:
    net = network(recorded("webdav/get_range_206"))

    chunk = await client(net).read("Rec/put_new.md", offset=2, length=3)

    assert (chunk.data, chunk.offset, chunk.total, chunk.is_last) == (b"hel", 2, 10, False)
    assert chunk.content_type == "text/markdown"
    assert str(chunk.version) == f"83445014f6b9c5b2488ce55c7b1265b0~10~{SECONDS}"
    assert chunk.version.modified_at == datetime(2026, 11, 27, 21, 3, 53, tzinfo=UTC)
    assert net.seen[0].headers["Range"] == "bytes=2-4"
    assert net.seen[0].headers["Accept-Encoding"] == "identity"


async def test_a_server_that_ignores_the_range_is_cut_to_it() -> None:
    net = network(httpx2.Response(200, headers=READ_HEADERS, content=b"0123456789"))

    chunk = await client(net).read("a", offset=3, length=4)

    assert (chunk.data, chunk.offset, chunk.total) == (b"3456", 3, 10)


@pytest.mark.parametrize(
    ("size", "total", "is_last"),
    [(2, 2, True), (9, 9, False), (None, None, True)],
    ids=["all", "more", "unsaid"],
)
async def test_a_part_of_an_unknown_length_is_measured_by_the_size_of_the_file(
    size: int | None, total: int | None, *, is_last: bool
) -> None:
    """RFC 9110 §14.4: `*` says that the length is unknown, and a server may send less than was asked for."""
    headers = {**READ_HEADERS, "Content-Range": "bytes 0-1/*"}
    net = network(httpx2.Response(206, headers=headers, content=b"ab"), multistatus([entry("a", size=size)]))

    chunk = await client(net).read("a", length=5)

    assert (chunk.data, chunk.total, chunk.is_last) == (b"ab", total, is_last)


@pytest.mark.parametrize("unit", ["bytes", "Bytes", "BYTES"])
async def test_the_unit_of_a_range_may_stand_in_any_letter_case(unit: str) -> None:
    """RFC 9110 §14.1."""
    headers = {**READ_HEADERS, "Content-Range": f"{unit} 0-1/2"}
    net = network(httpx2.Response(206, headers=headers, content=b"ab"))

    chunk = await client(net).read("a", length=5)

    assert (chunk.data, chunk.total, chunk.is_last) == (b"ab", 2, True)


async def test_another_part_than_asked_for_is_refused() -> None:
    headers = {**READ_HEADERS, "Content-Range": "bytes 5-9/10"}
    net = network(httpx2.Response(206, headers=headers, content=b"56789"))

    with pytest.raises(errors.ServerFault):
        await client(net).read("a", length=5)


async def test_reading_a_folder_says_so() -> None:
    net = network(recorded("webdav/get_on_collection"))

    with pytest.raises(errors.InvalidInput, match="nc_files_list_folder"):
        await client(net).read("Rec", length=5)


async def test_an_answer_that_names_no_length_and_ends_early_tells_how_long_the_file_is() -> None:
    net = network(httpx2.Response(200, headers={"ETag": '"e1"', "Content-Type": "text/plain"}, content=b""))

    chunk = await client(net).read("empty.txt", length=5)

    assert (chunk.data, chunk.total, chunk.version.size) == (b"", 0, 0)


async def test_an_empty_file_reads_as_nothing() -> None:
    net = network(recorded("webdav/get_range_416"), multistatus([entry("a", size=0)]))

    chunk = await client(net).read("a", length=5)

    assert (chunk.data, chunk.total, chunk.is_last) == (b"", 0, True)
    assert str(chunk.version) == f"e1~0~{SECONDS}"


async def test_reading_past_the_end_says_so() -> None:
    ignored = httpx2.Response(200, headers=READ_HEADERS, content=b"0123456789")
    grown = multistatus([entry("a", size=4)])
    net = network(recorded("webdav/get_range_416"), ignored, recorded("webdav/get_range_416"), grown)
    files = client(net)

    with pytest.raises(errors.OutOfRange, match="ends before byte 900"):
        await files.read("a", offset=900, length=5)
    with pytest.raises(errors.InvalidInput, match="ends before byte 900"):
        await files.read("a", offset=900, length=5)
    with pytest.raises(errors.OutOfRange):
        await files.read("a", length=5)


async def test_reading_what_is_not_there_says_where_to_look() -> None:
    net = network(recorded("webdav/get_404"))

    with pytest.raises(errors.NotFound, match=r"no 'Rec/missing\.md'.*nc_files_list_folder"):
        await client(net).read("Rec/missing.md", length=5)


async def test_a_new_file_is_created_and_never_overwrites() -> None:
    net = network(recorded("webdav/put_create_201"), recorded("webdav/put_if_none_match_star_exists_412"))
    files = client(net)

    written = await files.write("Rec/put_new.md", b"# hello\n")
    with pytest.raises(errors.AlreadyExists, match="pass its etag"):
        await files.write("Rec/put_new.md", b"# hello\n")

    assert written.created
    assert str(written.version) == "83445014f6b9c5b2488ce55c7b1265b0~8~"
    assert net.seen[0].headers["If-None-Match"] == "*"
    assert "X-OC-MTime" not in net.seen[0].headers


async def test_an_unchanged_file_is_overwritten_and_the_new_etag_answered() -> None:
    """B16, B17: the etag that was read fits, and the answer holds the next one."""
    net = network(multistatus([entry("a")]), recorded("webdav/put_if_match_204"))

    written = await client(net).write("a", b"new", version=f"e1~3~{SECONDS}")

    assert net.methods == ["PROPFIND", "PUT"]
    assert net.seen[1].headers["If-Match"] == '"e1"'
    assert str(written.version) == "f53c3c089a63d60e605c6ef2dc8493f3~3~"
    assert not written.created


@pytest.mark.parametrize("stale", ["e0", f"e1~4~{SECONDS}", f"e1~3~{SECONDS - 1}", "e1~4~", "~4~"])
async def test_a_file_that_changed_in_any_visible_way_is_not_overwritten(stale: str) -> None:
    """A write in the same second keeps the etag, so size and time count as well."""
    net = network(multistatus([entry("a")]))

    with pytest.raises(errors.EtagMismatch, match="again, look at what has changed") as caught:
        await client(net).write("a", b"new", version=stale)

    assert caught.value.current_etag == f"e1~3~{SECONDS}"
    assert net.methods == ["PROPFIND"]


async def test_a_change_between_looking_and_writing_is_not_overwritten() -> None:
    """B20, U50: the last writer never wins in silence."""
    net = network(multistatus([entry("a")]), recorded("webdav/put_if_match_stale_412"))

    with pytest.raises(errors.EtagMismatch, match="again, look at what has changed"):
        await client(net).write("a", b"new", version="e1")


async def test_a_storage_without_etags_is_compared_by_size_and_time() -> None:
    """B19."""
    bare = multistatus([entry("a", etag=None)])
    net = network(bare, httpx2.Response(204), bare)

    written = await client(net).write("a", b"new", version=f"~3~{SECONDS}")

    assert net.methods == ["PROPFIND", "PUT", "PROPFIND"]
    assert "If-Match" not in net.seen[1].headers
    assert str(written.version) == f"~3~{SECONDS}"


async def test_a_bare_etag_is_not_enough_where_the_storage_has_none() -> None:
    """B19."""
    net = network(multistatus([entry("a", etag=None)]))

    with pytest.raises(errors.EtagMismatch):
        await client(net).write("a", b"new", version="e1")


async def test_a_write_whose_result_cannot_be_looked_at_still_succeeds() -> None:
    net = network(httpx2.Response(201), MISSING)

    written = await client(net).write("a", b"new")

    assert str(written.version) == "~3~"


async def test_a_write_into_a_missing_folder_names_the_tool_for_it() -> None:
    net = network(recorded("webdav/put_parent_missing_404"), recorded("webdav/put_on_collection_409"))
    files = client(net)

    with pytest.raises(errors.NotFound, match="nc_files_create_folder"):
        await files.write("nope/a", b"")
    with pytest.raises(errors.Conflict, match="is a folder"):
        await files.write("Rec", b"")


@pytest.mark.parametrize("failure", [httpx2.ReadTimeout("slow"), httpx2.ReadError("gone")])
async def test_a_lost_answer_says_that_the_write_may_have_happened(failure: Exception) -> None:
    net = network(failure)

    with pytest.raises(errors.TimedOut, match=r"may or may not have happened.*nc_files_get_info"):
        await client(net).write("a", b"new")

    assert len(net.seen) == 1


async def test_a_refused_certificate_is_no_lost_answer() -> None:
    net = network(httpx2.ConnectError("CERTIFICATE_VERIFY_FAILED"))

    with pytest.raises(errors.TlsFailed):
        await client(net).write("a", b"new")


#: A 507 without numbers; with them nothing is looked at.
BLOCKED = httpx2.Response(507, text="<s:message>Not allowed here</s:message>")


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        ("<d:quota-available-bytes>2</d:quota-available-bytes>", "needs 3 bytes and the quota leaves 2"),
        ("<d:quota-available-bytes>2000</d:quota-available-bytes>", "The quota is not the reason"),
        ("<d:quota-available-bytes>-3</d:quota-available-bytes>", "The quota is not the reason"),
        ("", "The quota is not the reason"),
    ],
)
async def test_a_refusal_for_want_of_room_blames_the_quota_only_when_it_is_used_up(
    quota: str, words: str
) -> None:
    """B25: Nextcloud answers 507 to blocked kinds of files as well."""
    folder = multistatus([entry("", folder=True, extra=quota)])
    net = network(BLOCKED, folder)

    with pytest.raises(errors.StorageFull, match=words) as caught:
        await client(net).write("too-big.bin", b"new")

    assert "Not allowed here" in str(caught.value)


async def test_a_quota_that_cannot_be_looked_at_is_said() -> None:
    net = network(BLOCKED, MISSING)

    with pytest.raises(errors.StorageFull, match="could not be looked at"):
        await client(net).write("too-big.bin", b"new")


async def test_a_folder_is_created_with_the_parents_it_lacks() -> None:
    exists, made = recorded("webdav/mkcol_exists_405"), recorded("webdav/mkcol_201")
    net = network(
        recorded("webdav/mkcol_parent_missing_409"),
        exists,
        multistatus([entry("a", folder=True)]),
        made,
        made,
    )

    created = await client(net).create_folder("a/b/c")

    paths = [request.url.path.removeprefix("/remote.php/dav/files/alice/") for request in net.seen]
    assert created
    assert paths == ["a/b/c", "a", "a", "a/b", "a/b/c"]


async def test_a_folder_that_is_there_already_is_not_an_error_but_a_file_is() -> None:
    exists = recorded("webdav/mkcol_exists_405")
    net = network(
        exists,
        multistatus([entry("a", folder=True)]),
        recorded("webdav/mkcol_exists_405"),
        multistatus([entry("a")]),
    )
    files = client(net)

    created = await files.create_folder("a")
    with pytest.raises(errors.AlreadyExists, match="file called 'a'"):
        await files.create_folder("a")

    assert not created


async def test_an_absurdly_deep_folder_is_refused_before_any_request() -> None:
    with pytest.raises(errors.InvalidInput, match="deep"):
        await client(network()).create_folder("/".join("x" * 65))


async def test_a_move_encodes_its_target_once_and_never_overwrites() -> None:
    """B04, B05: the Destination is an encoded absolute address below the same web root."""
    net = network(recorded("webdav/move_201"), multistatus([entry("base-ü/child-ü +~#?")]))
    http = http_over(net, base="https://cloud.example.org/nextcloud")

    moved = await FilesClient(http).move("child", "base-ü/child-ü +~#?")

    sent = net.seen[0].headers
    assert sent["Destination"] == (
        "https://cloud.example.org/nextcloud/remote.php/dav/files/alice/base-%C3%BC/child-%C3%BC%20%2B~%23%3F"
    )
    assert sent["Overwrite"] == "F"
    assert moved is not None
    assert moved.path == "base-ü/child-ü +~#?"


async def test_a_copy_overwrites_only_the_version_that_was_read() -> None:
    target = multistatus([entry("b")])
    net = network(target, recorded("webdav/copy_overwrite_t_204"), target)
    stale = network(target)

    copied = await client(net).copy("a", "b", overwrite="e1")
    with pytest.raises(errors.EtagMismatch):
        await client(stale).copy("a", "b", overwrite="e0")

    assert net.methods == ["PROPFIND", "COPY", "PROPFIND"]
    assert net.seen[1].headers["Overwrite"] == "T"
    assert copied is not None
    assert stale.methods == ["PROPFIND"]


async def test_a_folder_is_never_overwritten() -> None:
    net = network(multistatus([entry("b", folder=True)]))

    with pytest.raises(errors.InvalidInput, match="never overwritten"):
        await client(net).move("a", "b", overwrite="e1")


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ("webdav/copy_overwrite_f_412", errors.AlreadyExists, "'b' exists already"),
        ("webdav/move_dest_parent_missing_409", errors.Conflict, "nc_files_create_folder"),
        ("webdav/move_source_404", errors.NotFound, "no 'a'"),
        ("webdav/move_locked_500", errors.Locked, "locked"),
    ],
)
async def test_a_refused_move_says_why(answer: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        # A lock is met four times before it is told.
        await client(network(*[recorded(answer)] * 4)).move("a", "b")


@pytest.mark.parametrize("target", ["a", "/a/", "a/inside", "a/deep/inside"])
async def test_nothing_is_moved_onto_or_into_itself(target: str) -> None:
    with pytest.raises(errors.InvalidInput, match="itself"):
        await client(network()).move("a", target)


async def test_a_moved_item_that_cannot_be_looked_at_is_moved_all_the_same() -> None:
    net = network(recorded("webdav/move_201"), MISSING)

    assert await client(net).move("a", "b") is None


async def test_a_deletion_can_be_held_to_a_version() -> None:
    net = network(recorded("webdav/delete_204"), multistatus([entry("a")]), recorded("webdav/delete_204"))
    files = client(net)

    await files.delete("a")
    deleted = await files.delete("/a/", version="e1")

    assert deleted == "a"
    assert "If-Match" not in net.seen[0].headers
    assert net.seen[2].headers["If-Match"] == '"e1"'


async def test_a_stale_or_missing_item_is_not_deleted() -> None:
    stale, gone = recorded("webdav/delete_if_match_stale_412"), recorded("webdav/delete_404")
    net = network(multistatus([entry("a")]), stale, gone)
    files = client(net)

    with pytest.raises(errors.EtagMismatch, match="again, look at what has changed"):
        await files.delete("a", version="e1")
    with pytest.raises(errors.NotFound):
        await files.delete("a")


@pytest.mark.parametrize("path", ["", "/", "//"])
async def test_the_top_folder_is_never_changed(path: str) -> None:
    files = client(network())

    for attempt in (
        files.delete(path),
        files.write(path, b""),
        files.move(path, "x"),
        files.create_folder(path),
    ):
        with pytest.raises(errors.InvalidInput, match="top folder"):
            await attempt


async def test_a_search_asks_for_one_more_than_it_answers() -> None:
    net = network(recorded("webdav/search_like_limit5"), recorded("webdav/search_no_result"))
    files = client(net)

    found, more = await files.search(Query(name=".txt"), limit=4, first=8)
    nothing, no_more = await files.search(Query(name="zzz"), limit=4)

    body = net.seen[0].content.decode()
    assert [each.path for each in found][:2] == ["Rec/empty.txt", "Rec/a+c.txt"]
    assert (len(found), more, nothing, no_more) == (4, True, [], False)
    assert "<d:nresults>5</d:nresults>" in body
    assert ">8</s:firstresult>" in body
    assert net.seen[0].method == "SEARCH"


async def test_a_search_names_the_uid_and_the_folder_as_they_are() -> None:
    """U49, B14: SEARCH takes its scope without decoding."""
    net = network(recorded("webdav/search_no_result"))

    await client(net, "anne marie").search(Query(name="x", folder="/a & b%/"), limit=4)

    assert "<d:href>/files/anne marie/a &amp; b%</d:href>" in net.seen[0].content.decode()


async def test_every_condition_of_a_search_is_sent() -> None:
    net = network(*(recorded("webdav/search_no_result") for _ in range(4)))
    files, moment = client(net), datetime(2026, 11, 27, 1, 2, 3, tzinfo=UTC)

    await files.search(
        Query(
            min_size=1, max_size=2, modified_after=moment, modified_before=moment, favourite=True, kind="file"
        ),
        limit=1,
    )
    for kind in ("folder", "pdf", "image"):
        await files.search(Query(kind=kind), limit=1)

    body, folder, pdf, image = (request.content.decode() for request in net.seen)
    assert "<d:gte><d:prop><oc:size/></d:prop><d:literal>1</d:literal></d:gte>" in body
    assert "<d:lte><d:prop><oc:size/></d:prop><d:literal>2</d:literal></d:lte>" in body
    assert body.count("<d:literal>2026-11-27T01:02:03+00:00</d:literal>") == 2
    assert "<d:literal>yes</d:literal>" in body
    assert "<d:not><d:is-collection/></d:not>" in body
    assert "<d:where><d:is-collection/></d:where>" in folder
    assert "<d:literal>application/pdf</d:literal>" in pdf
    assert "<d:literal>image/%</d:literal>" in image


@pytest.mark.parametrize("query", [Query(), Query(name="a\nb")])
async def test_an_empty_or_broken_search_is_refused_before_any_request(query: Query) -> None:
    with pytest.raises(errors.InvalidInput):
        await client(network()).search(query, limit=1)


async def test_a_search_in_a_missing_folder_says_so() -> None:
    gone = recorded("webdav/propfind_404")
    net = network(gone, recorded("webdav/search_bad_prop_400"))
    files = client(net)

    with pytest.raises(errors.NotFound, match="no folder 'x' to search in"):
        await files.search(Query(name="a", folder="x"), limit=1)
    with pytest.raises(errors.InvalidName):
        await files.search(Query(name="a"), limit=1)


async def test_whether_this_very_file_is_at_a_path() -> None:
    here = multistatus([entry("a", extra="<oc:fileid>7</oc:fileid>")])
    net = network(here, here, MISSING)
    files = client(net)

    answers = [await files.holds("a", "7"), await files.holds("a", "8"), await files.holds("a", "7")]

    assert answers == [True, False, False]
    assert not await files.holds("../a", "7")


@pytest.mark.parametrize("path", ["x.part", "X.Part", "x.part/inside"])
async def test_a_name_that_nextcloud_keeps_for_uploads_is_refused_before_any_request(path: str) -> None:
    files = client(network())

    with pytest.raises(errors.InvalidName, match=r"'\.part', which it keeps for uploads .*another name"):
        await files.write(path, b"x")
    with pytest.raises(errors.InvalidName):
        await files.create_folder(path)
    with pytest.raises(errors.InvalidName):
        await files.copy("a", path)


async def test_what_nextcloud_shows_at_a_name_kept_for_uploads_is_not_there() -> None:
    phantom = recorded("webdav/propfind_part_props_207")
    net = network(phantom, phantom, phantom)
    files = client(net)

    with pytest.raises(errors.NotFound, match=r"There is no 'Rec/x\.part'"):
        await files.info("Rec/x.part")
    with pytest.raises(errors.NotFound):
        await files.delete("Rec/x.part")
    with pytest.raises(errors.NotFound):
        await files.read("Rec/x.part", length=1)

    assert {request.method for request in net.seen} == {"PROPFIND"}


async def test_a_real_file_with_that_ending_is_read_and_deleted() -> None:
    net = network(multistatus([entry("x.part")]), httpx2.Response(204))

    assert await client(net).delete("x.part") == "x.part"
    assert [request.method for request in net.seen] == ["PROPFIND", "DELETE"]
