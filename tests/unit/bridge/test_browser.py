"""The user's browser gets pages of the web alone, and never through a shell."""

import stat
import sys
from pathlib import Path

import pytest

from nextcloud_mcp_server.bridge.browser import Browser, UnsafeUrl, default_launch, is_loopback, page_url

HOSTILE = [
    "file:///etc/passwd",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vscode://extension/run",
    "ms-msdt:/id",
    "ftp://example.org/page",
    "//example.org/page",
    "example.org",
    "",
    "https://",
    "https:///page",
    "https://example.org/$(reboot)",
    "https://example.org/`reboot`",
    "https://example.org/;reboot",
    "https://example.org/|reboot",
    "https://example.org/a b",
    "https://example.org/a\nb",
    "https://example.org/\x1b[2J",
    'https://example.org/"',
    "https://example.org/'",
    "https://example.org/<b>",
    "https://example.org/\\windows",
    "https://exämple.org/",
    "https://example.org/\u202egro.evil",
    "https://user:password@example.org/",
    "https://bank.example@evil.example/",
    "https://exa$mple.org/",
    "https://[::1/",
    "https://example.org:notaport/",
    f"https://example.org/{'a' * 9000}",
    "-https://example.org/",
    "--help",
]


def never(url: str) -> bool:
    raise NotImplementedError(url)


@pytest.mark.parametrize("url", HOSTILE)
async def test_nothing_is_opened_or_printed_that_is_no_page_of_the_web(url: str) -> None:
    said: list[str] = []

    with pytest.raises(UnsafeUrl) as caught:
        await Browser(said.append, launch=never).show(url, "Sign in.")

    assert said == []
    assert "nothing was opened" in str(caught.value)
    assert url == "" or url not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/authorize?a=b&c=d%20e",
        "http://127.0.0.1:8000/page",
        "https://[2001:db8::1]:8443/x",
        "https://xn--exmple-cua.org/",
    ],
)
async def test_the_whole_url_and_its_host_are_shown_and_opened(url: str) -> None:
    said: list[str] = []
    opened: list[str] = []

    def launch(url: str) -> bool:
        opened.append(url)
        return True

    assert await Browser(said.append, launch=launch).show(url, "Sign in.")

    assert opened == [url]
    assert f"\n  {url}\n" in said[0]
    assert f"at {page_url(url).netloc} in" in said[0]


async def test_without_a_browser_the_url_is_only_shown() -> None:
    said: list[str] = []

    assert not await Browser(said.append, launch=None).show("https://example.org/", "Sign in.")

    assert "https://example.org/" in said[0]


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        (None, False),
    ],
)
def test_what_this_computer_is(host: str | None, is_local: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_loopback(host) is is_local


def test_without_a_desktop_nothing_is_started() -> None:
    assert default_launch({}, platform="linux") is None


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="a script of a Unix system")
@pytest.mark.parametrize(("code", "could"), [(0, True), (3, False)])
def test_the_url_is_one_argument_of_a_program(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    could: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    program, told = tmp_path / "xdg-open", tmp_path / "told"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$@" >{told}\nexit {code}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    launch = default_launch({"DISPLAY": ":0"}, platform="linux")
    assert launch is not None

    assert launch("https://example.org/?a=1&b=(2)*") is could

    assert told.read_text().splitlines() == ["1", "https://example.org/?a=1&b=(2)*"]


def test_a_program_is_not_started_with_another_scheme() -> None:
    for platform in ("darwin", "win32"):
        launch = default_launch({}, platform=platform)
        assert launch is not None
        with pytest.raises(UnsafeUrl):
            launch("file:///etc/passwd")
