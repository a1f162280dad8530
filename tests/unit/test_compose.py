"""The files that start containers: read as Compose reads them, held to the settings and to their pages.

No engine runs here. What an image does with an account of another name was read in the image's own entrypoint.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nextcloud_mcp_server.settings.names import known_variables
from tests.published_schemas import broken_rules_of_compose, read_yaml

ROOT = Path(__file__).parents[2]
#: What an operator starts, and the Nextcloud that the contract suite is played against.
STACKS = sorted(path.name for path in ROOT.glob("docker-compose*.yml"))
CONTRACT = "tests/contract/compose.yml"
FILES = [*STACKS, CONTRACT]
#: Started once to give a volume to another account, and the only services with root in them.
ROOT_ONCE = {"caddy-volume"}
#: One command, after which they end.
ENDING = {"setup", "caddy-volume"}
#: Has no port and no interface that could be asked.
UNASKED = {"cron"}
THEIRS = ("POSTGRES_", "NEXTCLOUD_ADMIN_", "OVERWRITE")
#: Folders in which a program of an image writes while it runs, and what it writes there.
WRITES = {
    "nextcloud-mcp-server": ("/tmp",),  # what is kept for one call; the document worker's own folder
    "redis": ("/data",),
    "python": ("/work", "/tmp"),  # of the contract suite: what it installs
    "caddy": ("/data", "/config"),
}


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def services_of(name: str) -> dict[str, dict[str, Any]]:
    return read_yaml(ROOT / name)["services"]


EVERY_SERVICE = [(file, name) for file in FILES for name in services_of(file)]
IN_STACKS = [(file, name) for file, name in EVERY_SERVICE if file in STACKS]


def mounts(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the volumes of a service, and where they are mounted."""
    for mount in service.get("volumes", ()):
        source, target = mount.split(":")[:2]
        yield source, target


def built_from_us(service: Mapping[str, Any]) -> bool:
    return service.get("build") == "."


def runs_as_10001() -> bool:
    dockerfile = text_of("Dockerfile")
    return "--uid 10001 server" in dockerfile and re.findall(r"^USER (\w+)$", dockerfile, re.MULTILINE) == [
        "server"
    ]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_what_the_specification_of_compose_says(name: str) -> None:
    assert broken_rules_of_compose(read_yaml(ROOT / name)) == []


@pytest.mark.parametrize("name", STACKS)
def test_what_a_file_wants_to_be_told_is_a_setting(name: str) -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", text_of(name)))

    assert asked
    assert asked <= set(known_variables())


@pytest.mark.parametrize("name", STACKS)
def test_what_a_file_tells_our_server_is_a_setting(name: str) -> None:
    told = {variable for service in services_of(name).values() for variable in service.get("environment", {})}

    ours = {variable for variable in told if not variable.startswith(THEIRS)}

    assert ours
    assert ours <= set(known_variables())


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_a_container_has_no_root_in_it(file: str, name: str) -> None:
    service = services_of(file)[name]

    user = str(service.get("user", "server" if built_from_us(service) and runs_as_10001() else "root"))

    assert (user.split(":", maxsplit=1)[0] in {"root", "0"}) == (name in ROOT_ONCE)


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_a_container_has_no_capability_but_those_that_are_named(file: str, name: str) -> None:
    service = services_of(file)[name]

    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", ())) <= {"NET_BIND_SERVICE", "CHOWN", "DAC_READ_SEARCH"}
    # A program with a capability of its own, such as Caddy's, would start without it.
    assert ("no-new-privileges:true" in service.get("security_opt", ())) == (name != "caddy")


def test_a_container_with_root_in_it_reaches_nobody_and_ends() -> None:
    with_root = [(file, name) for file, name in EVERY_SERVICE if name in ROOT_ONCE]

    assert len(with_root) == 2
    for file, name in with_root:
        service = services_of(file)[name]
        assert service["network_mode"] == "none"
        assert "restart" not in service
        assert service["command"][0] == "chown"


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_an_account_can_write_into_the_volumes_that_are_mounted_for_it(file: str, name: str) -> None:
    service = services_of(file)[name]
    made_by_us = re.findall(r"install -d -m \d+ -o server -g server ([^&\\]+)", text_of("Dockerfile"))
    ours = {folder for line in made_by_us for folder in line.split()}
    targets = {target for _, target in mounts(service)}

    if built_from_us(service):
        assert targets <= ours, "a new volume takes over the owner of the image's folder"
    else:
        assert targets <= {"/var/www/html", "/var/lib/postgresql/data", "/database", "/data", "/source"}


@pytest.mark.parametrize("name", FILES)
def test_every_volume_and_secret_that_a_service_uses_is_declared_and_each_is_used(name: str) -> None:
    document = read_yaml(ROOT / name)
    services = document["services"].values()

    used = {source for service in services for source, _ in mounts(service) if not source.startswith(".")}
    secrets = {secret for service in services for secret in service.get("secrets", ())}
    configs = {config["source"] for service in services for config in service.get("configs", ())}

    assert used == set(document["volumes"])
    assert secrets == set(document.get("secrets", {}))
    assert configs == set(document.get("configs", {}))


@pytest.mark.parametrize(("file", "name"), IN_STACKS)
def test_a_secret_is_in_no_variable_of_a_file(file: str, name: str) -> None:
    told = services_of(file)[name].get("environment", {})

    assert [
        variable for variable in told if re.search(r"PASSWORD$|SECRET$|KEYS$|^DATABASE_URL$", variable)
    ] == []


@pytest.mark.parametrize(("file", "name"), IN_STACKS)
def test_a_container_that_stays_says_whether_it_is_well(file: str, name: str) -> None:
    service = services_of(file)[name]

    if name in ENDING:
        assert service.get("restart", "on-failure:5") == "on-failure:5"
        return
    assert service["restart"] == "unless-stopped"
    inherited = built_from_us(service) and "HEALTHCHECK" in text_of("Dockerfile")
    assert inherited or "healthcheck" in service or name in UNASKED


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_a_service_waits_only_for_what_can_be_waited_for(file: str, name: str) -> None:
    services = services_of(file)

    for other, how in services[name].get("depends_on", {}).items():
        expected = "service_completed_successfully" if other in ENDING else "service_healthy"
        assert how["condition"] == expected
        profiles = set(services[other].get("profiles", ()))
        # One whose profile is off is not started, and must not be required.
        assert profiles <= set(services[name].get("profiles", ())) or how.get("required") is False


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_only_caddy_is_reached_from_other_machines(file: str, name: str) -> None:
    ports = services_of(file)[name].get("ports", ())

    assert [port for port in ports if not port.startswith("127.0.0.1:")] == (
        ["80:80", "443:443"] if name == "caddy" else []
    )


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_a_container_without_a_writable_root_can_write_where_its_program_does(file: str, name: str) -> None:
    service = services_of(file)[name]
    if not service.get("read_only"):
        return

    image = "nextcloud-mcp-server" if built_from_us(service) else service["image"].partition(":")[0]
    writable = {folder.partition(":")[0] for folder in service["tmpfs"]}
    writable |= {
        target for source, target in mounts(service) if f"{source}:{target}:ro" not in service["volumes"]
    }

    assert set(WRITES[image]) <= writable


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_an_image_of_others_names_its_version(file: str, name: str) -> None:
    service = services_of(file)[name]
    if built_from_us(service):
        return

    image, _, tag = service["image"].partition(":")
    version = re.fullmatch(r"(?:\$\{\w+:-)?(\d[\d.]*)\}?(?:-\w+)?", tag)

    assert image
    assert version, "another main version, which an update alone may bring, can need a migration"


def test_every_container_of_one_program_has_the_same_version() -> None:
    images = {
        services_of(file)[name]["image"]
        for file, name in IN_STACKS
        if not built_from_us(services_of(file)[name])
    }

    assert len({image.partition(":")[0] for image in images}) == len(images)


def test_the_suite_that_deletes_everything_has_a_nextcloud_of_its_own() -> None:
    document = read_yaml(ROOT / CONTRACT)
    suite, nextcloud = document["services"]["contract"], document["services"]["nextcloud"]
    (config,) = document["configs"].values()
    told = suite["environment"]

    names = {read_yaml(ROOT / name).get("name") for name in STACKS}
    accounts = dict(pair.split(":") for pair in told["NEXTCLOUD_TEST_USERS"].split(","))
    added = re.findall(r"OC_PASS=(\S+) occ user:add .* (\w+)\n", config["content"])
    made = {uid: password for password, uid in added}

    assert document["name"] not in names
    assert suite["profiles"] == ["contract"]
    assert not any(service.get("ports") for service in (suite, nextcloud))
    assert told["NEXTCLOUD_TEST_URL"] == "http://nextcloud"
    assert "nextcloud" in nextcloud["environment"]["NEXTCLOUD_TRUSTED_DOMAINS"].split()
    assert accounts == made | {"admin": nextcloud["environment"]["NEXTCLOUD_ADMIN_PASSWORD"]}


def test_the_suite_s_nextcloud_is_set_up_as_the_page_of_the_suite_asks() -> None:
    page = text_of("tests/contract/README.md")
    (config,) = read_yaml(ROOT / CONTRACT)["configs"].values()

    set_up = dict(re.findall(r"occ config:system:set (\S+) --value=(\w+)", config["content"]))

    assert set_up == {
        "auth.bruteforce.protection.enabled": "false",
        "ratelimit.protection.enabled": "false",
        "hashingTimeCost": "1",
        "hashingMemoryCost": "1024",
    }
    assert [name for name in set_up if name not in page] == []


def test_the_suite_gets_every_file_that_it_reads() -> None:
    script = read_yaml(ROOT / CONTRACT)["services"]["contract"]["entrypoint"][2]

    copied = re.search(r"pyproject\.toml .*tests\b", script)

    assert copied
    assert [name for name in copied[0].split() if not (ROOT / name).exists()] == []
    assert "--require-hashes --requirement /source/requirements.lock" in script


@pytest.mark.parametrize(("file", "name"), EVERY_SERVICE)
def test_an_inline_config_is_not_mounted_where_nothing_can_be_written(file: str, name: str) -> None:
    # Compose copies it into the container, which the engine refuses (docker/compose issue 12031).
    service = services_of(file)[name]

    assert not (service.get("configs") and service.get("read_only"))


def test_every_secret_of_the_whole_cloud_is_made_on_its_page() -> None:
    secrets = re.findall(r"file: (secrets/\S+)", text_of("docker-compose.builtin.yml"))
    page = text_of("docs/quickstart-builtin.md")

    assert len(secrets) == 4
    assert [secret for secret in secrets if f" > {secret}\n" not in page] == []


def test_the_file_for_an_own_authority_fits_the_file_that_it_is_added_to(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", text_of("docs/home-network.md"), re.MULTILINE | re.DOTALL)
    file = tmp_path / "docker-compose.home.yml"
    file.write_text(text, encoding="utf-8")
    document = read_yaml(file)
    beside = services_of("docker-compose.existing.yml")

    assert broken_rules_of_compose(document) == []
    assert document["services"].keys() <= beside.keys()
    for service in document["services"].values():
        ((variable, path),) = service["environment"].items()
        assert variable in known_variables()
        assert path in {target for _, target in mounts(service)}


def test_a_nextcloud_that_exists_takes_three_commands() -> None:
    page = text_of("docs/quickstart-builtin.md")
    section = page[page.index("## Beside your Nextcloud") : page.index("## A whole cloud")]

    first = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0].splitlines()
    assert len(first) == 3
    assert {"NEXTCLOUD_HOST", "NEXTCLOUD_MCP_SERVER_URL"} == set(re.findall(r"(NEXTCLOUD_\w+)=", first[0]))
    assert "run --rm --build setup" in first[1]


def test_the_whole_cloud_takes_four_steps() -> None:
    steps = re.findall(r"^## (\d)\. ", text_of("docs/quickstart-builtin.md"), flags=re.MULTILINE)

    assert steps == ["1", "2", "3", "4"]


@pytest.mark.parametrize("name", ["docker-compose.builtin.yml", "docker-compose.existing.yml"])
def test_requests_come_from_an_address_that_the_server_trusts(name: str) -> None:
    document = read_yaml(ROOT / name)
    (subnet,) = document["networks"]["inside"]["ipam"]["config"]
    trusted = document["services"]["server"]["environment"]["TRUSTED_PROXIES"]
    caddy = document["services"]["caddy"]["networks"]["inside"]["ipv4_address"]

    assert trusted == "${TRUSTED_PROXIES:-" + subnet["subnet"].replace(".0/24", ".0/30") + "}"
    assert [caddy, subnet["gateway"]] == [subnet["subnet"].replace(".0/24", end) for end in (".2", ".1")]
