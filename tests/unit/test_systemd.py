"""The unit for systemd, read dry: no systemd runs here. `systemd-analyze` was asked by hand (docs/operate)."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.testing import CliRunner

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.web.stopping import LAST_CALLS_SECONDS, LAST_STREAMS_SECONDS

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "nextcloud-mcp.service"
GUIDE = (ROOT / "docs" / "operate" / "install.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "quickstart-builtin.md").read_text(encoding="utf-8")


def service() -> Mapping[str, Sequence[str]]:
    """Read the section of the service; a setting may come more than once."""
    (section,) = re.findall(
        r"^\[Service\]\n(.*?)^\[", UNIT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in re.findall(r"^(\w+)=(.*)$", section, re.MULTILINE):
        found[name].append(value)
    return found


def test_the_guide_makes_what_the_unit_names() -> None:
    (account,), (environment,), (command,) = (
        service()[name] for name in ("User", "EnvironmentFile", "ExecStart")
    )
    program, *arguments = command.split()

    assert f"useradd --system --home-dir /var/lib/{account} " in GUIDE
    assert f"{program.rpartition('/')[0]}/pip install" in GUIDE
    assert f"> {environment} " in QUICKSTART
    assert f"DATA_DIR=/var/lib/{service()['StateDirectory'][0]}" in QUICKSTART
    assert f"cp {UNIT.relative_to(ROOT).as_posix()} /etc/systemd/system/" in GUIDE
    assert CliRunner().invoke(cli.app, [*arguments, "--help"]).exit_code == 0


def test_wrong_settings_do_not_start_it_again_and_again() -> None:
    # `test_cli.py` has this code of such an end.
    assert service()["Restart"] == ["on-failure"]
    assert service()["RestartPreventExitStatus"] == ["2"]


def test_it_has_time_for_its_last_calls_and_descriptors_for_its_clients() -> None:
    assert int(service()["TimeoutStopSec"][0]) >= LAST_CALLS_SECONDS + LAST_STREAMS_SECONDS + 10
    assert int(service()["LimitNOFILE"][0]) >= 10_000


def test_it_has_no_capability_and_writes_to_its_own_folders_alone() -> None:
    assert service()["CapabilityBoundingSet"] == [""]
    assert service()["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in service()
    assert service()["StateDirectoryMode"] == ["0700"]
    assert [
        name for name in ("PrivateTmp", "ProtectHome", "NoNewPrivileges") if service()[name] != ["true"]
    ] == []


def test_the_reader_of_documents_can_still_shut_itself_in() -> None:
    allowed = " ".join(service()["SystemCallFilter"]).split()

    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= set(allowed)
    # What is not allowed is refused, and does not end the server.
    assert service()["SystemCallErrorNumber"] == ["EPERM"]
