import pytest

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("https://cloud.example.org", "https://cloud.example.org"),
        (" HTTPS://Cloud.Example.ORG./ ", "https://cloud.example.org"),
        ("https://cloud.example.org:443/", "https://cloud.example.org"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://h/nextcloud/", "https://h/nextcloud"),
        ("https://h/nextcloud/index.php", "https://h/nextcloud"),
        ("https://h/nextcloud/index.php/apps/dashboard/", "https://h/nextcloud"),
        ("https://h/remote.php/dav/files/alice", "https://h"),
        ("https://h/status.php", "https://h"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_an_address_is_understood_as_people_write_or_copy_it(written: str, base: str) -> None:
    """B32: the base keeps its path."""
    url = NextcloudUrl.parse(written)

    assert str(url) == base


@pytest.mark.parametrize(
    "written",
    [
        "",
        "cloud.example.org",
        "ftp://cloud.example.org",
        "https://",
        "https://h:99999",
        "https://[::1",
        "https://alice:hunter2@cloud.example.org",
        "https://cloud.example.org/?a=hunter2",
        "https://cloud.example.org/#hunter2",
        "https://cloud.example.org/a/../b",
        "https://cloud example.org",
        "https://cloud.example.org\\@evil.example",
        "https://h/a b",
        f"https://{'ü' * 70}.example",
    ],
)
def test_a_wrong_address_names_the_variable_and_the_fix_and_repeats_nothing(written: str) -> None:
    with pytest.raises(ConfigurationError, match=r"NEXTCLOUD_HOST .*https://cloud\.example\.org") as caught:
        NextcloudUrl.parse(written)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "answered", "rebuilt"),
    [
        ("https://h", "http://localhost/login/v2/flow/x", "https://h/login/v2/flow/x"),
        ("http://h:8080", "http://h/login/v2/flow/x?a=1", "http://h:8080/login/v2/flow/x?a=1"),
        ("https://h/nextcloud", "https://h/nextcloud/login/v2/flow/x", "https://h/nextcloud/login/v2/flow/x"),
        (
            "https://h/nextcloud",
            "http://app/index.php/login/v2/flow/x",
            "https://h/nextcloud/index.php/login/v2/flow/x",
        ),
        (
            "https://h/nextcloud",
            "https://h/nextcloud/nextcloud/index.php/login/v2/flow/x",
            "https://h/nextcloud/index.php/login/v2/flow/x",
        ),
        ("https://h/login", "https://h/login/login/v2/flow/x", "https://h/login/login/v2/flow/x"),
        ("https://h/nc", "https://h/ncx/y", "https://h/nc/ncx/y"),
    ],
)
def test_an_answered_url_is_put_onto_the_base_without_doubling_its_prefix(
    base: str, answered: str, rebuilt: str
) -> None:
    """B31, U08: the host is ours, path and query are Nextcloud's."""
    url = NextcloudUrl.parse(base)

    assert url.rebuild(answered) == rebuilt


def test_origin_and_netloc_leave_the_default_port_out() -> None:
    url = NextcloudUrl.parse("https://h:443/nc")

    assert (url.origin, url.netloc, url.port, url.prefix) == ("https://h", "h", None, "/nc")
