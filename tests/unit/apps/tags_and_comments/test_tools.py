import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Forbidden, InvalidInput, NotFound, ServerFault, TimedOut
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from tests.dav_fakes import account_in, account_over, call, entry, multistatus, network


@pytest.fixture
def sandbox() -> Sandbox:
    made = Sandbox.demo()
    made.state.tags.clear()
    return made


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def test_a_tag_that_does_not_exist_is_made_and_put_on_the_file(alice: Account) -> None:
    done = await call(
        alice, "nc_files_set_labels", path="Readme.md", add_tags=["R&D", "Zürich"], favorite=True
    )
    info = await call(alice, "nc_files_get_info", path="Readme.md")
    listed = await call(alice, "nc_files_list_tags", path="/Readme.md")

    assert (done.tags, done.favorite, done.failed) == (["R&D", "Zürich"], True, None)
    assert (info.tags, info.favorite) == (["R&D", "Zürich"], True)
    assert [row.name for row in listed.items] == ["R&D", "Zürich"]


async def test_tags_and_the_mark_are_taken_off_and_what_is_not_there_stays_so(alice: Account) -> None:
    await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["a", "b"], favorite=True)

    done = await call(
        alice, "nc_files_set_labels", path="Readme.md", remove_tags=["A", "never"], favorite=False
    )
    again = await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["b", "b"])

    assert (done.tags, done.favorite) == (["b"], False)
    assert again.tags == ["b"]
    assert [row.name for row in (await call(alice, "nc_files_list_tags")).items] == ["a", "b"]


async def test_a_tag_is_found_regardless_of_case_only_where_that_leaves_no_doubt(
    sandbox: Sandbox, alice: Account
) -> None:
    for name in ("Urgent", "todo", "Todo"):
        sandbox.state.add_tag(name)

    done = await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["urgent", "TODO", "todo"])

    assert done.tags == ["Urgent", "todo", "TODO"]


async def test_what_half_succeeded_says_which_half(sandbox: Sandbox, alice: Account) -> None:
    sandbox.state.add_tag("known")
    sandbox.state.tags_by_admins_only = True

    done = await call(
        alice, "nc_files_set_labels", path="Readme.md", add_tags=["known", "new"], favorite=True
    )
    with pytest.raises(Forbidden, match=r"'new' was not set: .* only administrators make tags"):
        await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["new"])

    assert (done.tags, done.favorite) == (["known"], True)
    assert len(done.failed) == 1
    assert "'new' was not set" in done.failed[0]


def tagged(tag: str) -> str:
    """Write the file `a` as it is shown once it has a tag."""
    shown = f"<nc:system-tags><nc:system-tag>{tag}</nc:system-tag></nc:system-tags>"
    return entry("a", extra=f"<oc:fileid>7</oc:fileid>{shown}")


async def test_changes_that_another_user_made_at_the_same_time_are_no_failure() -> None:
    file = entry("a", extra="<oc:fileid>7</oc:fileid>")
    row = "<oc:id>1</oc:id><oc:display-name>{}</oc:display-name>"
    known = multistatus(
        entry("", href=f"/remote.php/dav/systemtags/{n}", extra=row.format(name))
        for n, name in ((1, "a"), (2, "b"))
    )
    held = multistatus(
        [entry("", href="/remote.php/dav/systemtags-relations/files/7/2", extra=row.format("b"))]
    )
    net = network(
        multistatus([file]),
        known,
        held,
        httpx2.Response(409),
        httpx2.Response(404),
        multistatus([tagged("a")]),
    )

    done = await call(account_over(net), "nc_files_set_labels", path="a", add_tags=["a"], remove_tags=["b"])

    assert done.failed is None
    assert net.methods == ["PROPFIND", "PROPFIND", "PROPFIND", "PUT", "DELETE", "PROPFIND"]


@pytest.mark.parametrize("header", ["http://h/remote.php/dav/systemtags/9", None])
async def test_the_id_of_a_new_tag_is_answered_or_looked_up(header: str | None) -> None:
    file = entry("a", extra="<oc:fileid>7</oc:fileid>")
    row = "<oc:id>9</oc:id><oc:display-name>new</oc:display-name>"
    listed = multistatus([entry("", href="/remote.php/dav/systemtags/9", extra=row)])
    created = httpx2.Response(201, headers={"Content-Location": header} if header else {})
    look_up = () if header else (listed,)
    net = network(
        multistatus([file]),
        multistatus([]),
        multistatus([]),
        created,
        *look_up,
        httpx2.Response(201),
        multistatus([tagged("new")]),
    )

    await call(account_over(net), "nc_files_set_labels", path="a", add_tags=["new"])

    assert str(net.seen[-2].url).endswith("/systemtags-relations/files/7/9")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Say what to change"),
        ({"add_tags": [" "]}, "1 to 64 bytes"),
        ({"add_tags": ["ü" * 33]}, "1 to 64 bytes"),
        ({"add_tags": ["a"] * 21}, "at most 20"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_before_anything_happens(
    sandbox: Sandbox, alice: Account, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await call(alice, "nc_files_set_labels", path="Readme.md", **arguments)

    assert sandbox.state.tags == {}


async def test_tags_come_in_pages_and_say_which_only_administrators_give(
    sandbox: Sandbox, alice: Account
) -> None:
    for number in range(5):
        sandbox.state.add_tag(f"tag {number}", assignable=number != 3)

    first = await call(alice, "nc_files_list_tags", limit=3)
    second = await call(alice, "nc_files_list_tags", limit=3, cursor=first.cursor)

    assert (first.total, [row.name for row in first.items]) == (5, ["tag 0", "tag 1", "tag 2"])
    assert [(row.name, row.fixed) for row in second.items] == [("tag 3", True), ("tag 4", None)]
    assert second.cursor is None


async def test_comments_are_added_and_read_newest_first(alice: Account) -> None:
    for text in ("first", "<b>&second", "third"):
        await call(alice, "nc_files_add_comment", path="Readme.md", text=text)

    first = await call(alice, "nc_files_list_comments", path="Readme.md", limit=2)
    # One that came meanwhile moves the others down.
    await call(alice, "nc_files_add_comment", path="Readme.md", text="fourth")
    second = await call(alice, "nc_files_list_comments", path="Readme.md", limit=2, cursor=first.cursor)

    assert [(row.author, row.text) for row in first.items] == [
        ("Alice Example", "third"),
        ("Alice Example", "<b>&second"),
    ]
    assert [row.text for row in second.items] == ["first"]
    assert (await call(alice, "nc_files_list_comments", path="Documents")).items == []


async def test_pages_of_comments_go_on_however_many_came_meanwhile(alice: Account) -> None:
    for number in range(4):
        await call(alice, "nc_files_add_comment", path="Readme.md", text=str(number))
    page = await call(alice, "nc_files_list_comments", path="Readme.md", limit=1)
    for number in range(3):
        await call(alice, "nc_files_add_comment", path="Readme.md", text=f"new {number}")
    texts = [row.text for row in page.items]

    while page.cursor:
        page = await call(alice, "nc_files_list_comments", path="Readme.md", limit=1, cursor=page.cursor)
        texts += [row.text for row in page.items]

    assert texts == ["3", "2", "1", "0"]


async def test_long_comments_make_shorter_pages(alice: Account) -> None:
    for _ in range(15):
        await call(alice, "nc_files_add_comment", path="Readme.md", text="🎉" * 1000)
    page = await call(alice, "nc_files_list_comments", path="Readme.md")
    seen = len(page.items)

    while page.cursor:
        page = await call(alice, "nc_files_list_comments", path="Readme.md", cursor=page.cursor)
        seen += len(page.items)

    assert seen == 15


async def test_a_nextcloud_without_tags_or_comments_says_so() -> None:
    bare = account_in(Sandbox.demo(apps=DEFAULT_APPS - {"systemtags", "comments"}))

    with pytest.raises(NotFound, match="has no tags"):
        await call(bare, "nc_files_list_tags")
    with pytest.raises(NotFound, match="has no comments"):
        await call(bare, "nc_files_list_comments", path="Readme.md")
    with pytest.raises(NotFound, match="has no comments"):
        await call(bare, "nc_files_add_comment", path="Readme.md", text="x")
    assert (await call(bare, "nc_files_set_labels", path="Readme.md", favorite=True)).favorite


async def test_tags_of_what_may_only_be_read_are_refused_before_a_new_one_is_made(
    sandbox: Sandbox, alice: Account
) -> None:
    file = sandbox.state.users["alice"].files.get("/Readme.md")
    file.readonly = True
    file.tags.add(sandbox.state.add_tag("held").id)

    with pytest.raises(Forbidden, match=r"'new' was not set: .* may only read this"):
        await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["new"])
    with pytest.raises(Forbidden, match="may only read"):
        await call(alice, "nc_files_set_labels", path="Readme.md", remove_tags=["held"])
    marked = await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["new"], favorite=True)

    assert [tag.name for tag in sandbox.state.tags.values()] == ["held"]
    assert (marked.favorite, len(marked.failed)) == (True, 1)


@pytest.mark.parametrize(
    ("answer", "left"),
    [(httpx2.Response(204), 0), (httpx2.Response(403), 1)],
)
async def test_a_tag_made_for_nothing_is_deleted_or_named(answer: httpx2.Response, left: int) -> None:
    file = entry("a", extra="<oc:fileid>7</oc:fileid>")
    created = httpx2.Response(201, headers={"Content-Location": "/remote.php/dav/systemtags/9"})
    net = network(
        multistatus([file]), multistatus([]), multistatus([]), created, httpx2.Response(403), answer
    )

    with pytest.raises(Forbidden) as caught:
        await call(account_over(net), "nc_files_set_labels", path="a", add_tags=["new"])

    assert net.methods[-1] == "DELETE"
    assert str(net.seen[-1].url).endswith("/systemtags/9")
    assert str(caught.value).count("all users see it; an administrator can delete it") == left


async def test_a_tag_that_may_have_been_set_is_not_deleted_again() -> None:
    file = entry("a", extra="<oc:fileid>7</oc:fileid>")
    created = httpx2.Response(201, headers={"Content-Location": "/remote.php/dav/systemtags/9"})
    net = network(multistatus([file]), multistatus([]), multistatus([]), created, httpx2.ReadError("broken"))

    with pytest.raises(TimedOut, match="as far as is known"):
        await call(account_over(net), "nc_files_set_labels", path="a", add_tags=["new"])


async def test_a_tag_whose_name_ends_in_a_space_is_another_one(sandbox: Sandbox, alice: Account) -> None:
    """N13."""
    sandbox.state.add_tag("todo")
    sandbox.state.add_tag("todo ")

    done = await call(alice, "nc_files_set_labels", path="Readme.md", add_tags=["todo "])

    assert done.tags == ["todo "]


def answered_but_not_done(*, tags_too: bool) -> Account:
    """Open an account at a Nextcloud that confirms a favourite mark, or also a tag, and sets none."""
    sandbox = Sandbox.demo()
    inner = httpx2.ASGITransport(app=sandbox.app)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "PROPPATCH":
            return multistatus([])
        if tags_too and request.method == "PUT" and "systemtags-relations" in request.url.path:
            return httpx2.Response(201)
        return await inner.handle_async_request(request)

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    nextcloud = Nextcloud(NextcloudUrl.parse("http://localhost"), pool)
    return nextcloud.account(BasicCredential("alice", SecretStr("alice")), uid="alice")


async def test_a_mark_that_nextcloud_confirms_and_does_not_set_is_an_error() -> None:
    account = answered_but_not_done(tags_too=True)

    with pytest.raises(
        ServerFault, match="changed nothing: 'tag urgent' is false instead of true; 'favorite' is"
    ):
        await call(
            account, "nc_files_set_labels", path="/Documents/Welcome.md", add_tags=["urgent"], favorite=True
        )


async def test_a_mark_that_is_not_set_beside_one_that_is_stands_in_the_note() -> None:
    account = answered_but_not_done(tags_too=False)

    marked = await call(
        account, "nc_files_set_labels", path="/Documents/Welcome.md", add_tags=["urgent"], favorite=True
    )

    assert "urgent" in marked.tags
    assert (
        marked.note
        == "Nextcloud did not store all of it as it was sent: 'favorite' is false instead of true."
    )
