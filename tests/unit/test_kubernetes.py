"""The objects of deploy/kubernetes, read dry: no cluster runs here.

`kubectl kustomize` puts them together in `.github/workflows/check.yml`.
"""

import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest

from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.settings.names import known_variables
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.web import health
from nextcloud_mcp_server.web.stopping import LAST_CALLS_SECONDS, LAST_STREAMS_SECONDS
from release import facts
from tests.published_schemas import broken_rules_of_kubernetes, read_yaml

FOLDER = facts.ROOT / "deploy" / "kubernetes"
BASE, OVERLAY = FOLDER / "base", FOLDER / "two-replicas"
OBJECTS = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml")
#: Between the end of the server's last answer and that of its process: it ends its jobs and closes the database.
CLOSING_SECONDS = 10


def kustomization(folder: Path) -> dict[str, Any]:
    return read_yaml(folder / "kustomization.yaml")


def deployment() -> dict[str, Any]:
    return cast("dict[str, Any]", read_yaml(BASE / "deployment.yaml")["spec"])


def pod() -> dict[str, Any]:
    return cast("dict[str, Any]", deployment()["template"]["spec"])


def container() -> dict[str, Any]:
    (only,) = pod()["containers"]
    return cast("dict[str, Any]", only)


def ports() -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container()["ports"]}


def told(*folders: Path) -> dict[str, str]:
    """Return the variables that the kustomizations set, the last one's winning."""
    generators = chain.from_iterable(kustomization(folder)["configMapGenerator"] for folder in folders)
    return dict(literal.split("=", 1) for one in generators for literal in one["literals"])


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_an_object_is_what_the_schema_of_kubernetes_says(path: Path) -> None:
    assert broken_rules_of_kubernetes(read_yaml(path)) == []


def test_the_schema_lets_no_unknown_field_pass() -> None:
    changed = read_yaml(BASE / "deployment.yaml")
    changed["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True

    (fault,) = broken_rules_of_kubernetes(changed)

    assert "readOnlyRootFileSystem" in fault


@pytest.mark.parametrize("folder", [BASE, OVERLAY], ids=["base", "two-replicas"])
def test_a_kustomization_lists_every_file_beside_it(folder: Path) -> None:
    listed = kustomization(folder)["resources"]

    files = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}

    assert {name for name in listed if not name.startswith("..")} == files
    assert all((folder / name).exists() for name in listed)


def test_the_overlay_changes_what_the_base_has() -> None:
    base, overlay = kustomization(BASE), kustomization(OVERLAY)
    (image,) = overlay["images"]
    (replicas,) = overlay["replicas"]
    (merged,) = overlay["configMapGenerator"]

    assert image["name"] == container()["image"]
    assert replicas == {"name": read_yaml(BASE / "deployment.yaml")["metadata"]["name"], "count": 2}
    assert merged["behavior"] == "merge"
    assert [merged["name"]] == [one["name"] for one in base["configMapGenerator"]]
    assert container()["envFrom"] == [{"configMapRef": {"name": merged["name"]}}]


def test_every_variable_is_a_setting() -> None:
    assert told(BASE, OVERLAY).keys() <= set(known_variables())


def test_the_server_starts_with_these_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mount,) = [one["mountPath"] for one in container()["volumeMounts"] if one["name"] == "secrets"]
    texts = {
        "database-url": "postgresql://mcp:password@postgres/mcp",
        "encryption-keys": new_key(),
        "nextcloud-client-id": "id",
        "nextcloud-client-secret": "secret",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for variable, value in told(BASE, OVERLAY).items():
        monkeypatch.setenv(variable, value.replace(mount, str(tmp_path)))

    settings = load(transport="http", host="0.0.0.0")

    named = {value.rpartition("/")[2] for value in told(BASE).values() if value.startswith(f"{mount}/")}
    assert named == texts.keys()
    assert settings.mode == "builtin"
    assert settings.database_address.startswith("postgresql")
    assert settings.metrics_port == ports()["metrics"]


def test_each_secret_is_a_file_that_the_guide_makes() -> None:
    guide = (facts.ROOT / "docs" / "operate" / "install.md").read_text(encoding="utf-8")
    (made,) = re.findall(r"create secret generic (\S+) ((?:.*\\\n)*.*)\n", guide)
    files = {value.rpartition("/")[2] for name, value in told(BASE).items() if name.endswith("_FILE")}
    (volume,) = [one["secret"] for one in pod()["volumes"] if "secret" in one]

    assert made[0] == volume["secretName"]
    assert set(re.findall(r"--from-file=(\S+)", made[1])) == files


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="the guide's commands are those of bash")
def test_the_guide_writes_the_address_of_the_database_without_a_password_in_a_command(tmp_path: Path) -> None:
    guide = (facts.ROOT / "docs" / "operate" / "install.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^ +read -rs password\n(?:.*\n)*? +unset password\n", guide, re.MULTILINE)

    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, input="p%40ss\n", text=True, check=True)

    address = (tmp_path / "database-url").read_text(encoding="utf-8")
    assert address == "postgresql://mcp:p%40ss@postgres.example.org/mcp?sslmode=verify-full"


def test_the_ports_are_those_of_the_server() -> None:
    assert ports() == {"http": int(facts.port()), "metrics": int(told(BASE)["METRICS_PORT"])}
    assert Settings.model_fields["port"].default == ports()["http"]
    for path in OBJECTS:
        document = read_yaml(path)
        if document["kind"] == "Service":
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports().keys()
    rules = read_yaml(OVERLAY / "network.yaml")["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports().keys()


def test_no_ingress_leads_to_the_metrics() -> None:
    (rule,) = read_yaml(OVERLAY / "ingress.yaml")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service = read_yaml(BASE / "service.yaml")

    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    assert [port["name"] for port in service["spec"]["ports"]] == ["http"]


def test_the_pod_has_the_rights_of_the_image_and_no_more() -> None:
    account, rights = pod()["securityContext"], container()["securityContext"]

    assert {str(account[name]) for name in ("runAsUser", "runAsGroup", "fsGroup")} == {facts.USER}
    assert account["runAsNonRoot"] is True
    assert account["seccompProfile"] == {"type": "RuntimeDefault"}
    assert rights == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["automountServiceAccountToken"] is False


def test_the_server_can_write_to_tmp_alone() -> None:
    volumes = {one["name"]: one for one in pod()["volumes"]}
    mounted = {one["mountPath"]: volumes[one["name"]] for one in container()["volumeMounts"]}

    assert [path for path, volume in mounted.items() if "emptyDir" in volume] == ["/tmp"]
    assert mounted.keys() - {"/tmp"} == {
        one["mountPath"] for one in container()["volumeMounts"] if one.get("readOnly")
    }


def test_the_address_of_the_service_is_not_taken_for_a_setting() -> None:
    name = read_yaml(BASE / "service.yaml")["metadata"]["name"].upper().replace("-", "_")

    assert f"{name}_PORT" in known_variables()
    assert pod()["enableServiceLinks"] is False


def test_probes_ask_what_the_server_answers_and_wait_longer_than_it_does() -> None:
    probes = {name: container()[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}

    assert {name: probe["httpGet"] for name, probe in probes.items()} == {
        "startup": {"path": "/healthz", "port": "http"},
        "liveness": {"path": "/healthz", "port": "http"},
        "readiness": {"path": "/readyz", "port": "http"},
    }
    assert probes["readiness"]["timeoutSeconds"] > health.MOST_SECONDS


def test_a_pod_that_ends_has_time_for_its_last_calls() -> None:
    pause = int(told(BASE)["SHUTDOWN_DRAIN_SECONDS"])

    assert pause > 0
    assert "lifecycle" not in container()
    needed = pause + LAST_CALLS_SECONDS + LAST_STREAMS_SECONDS + CLOSING_SECONDS
    assert pod()["terminationGracePeriodSeconds"] >= needed


def test_a_new_pod_is_ready_before_an_old_one_ends_and_nodes_are_emptied_one_by_one() -> None:
    assert deployment()["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert read_yaml(BASE / "disruption.yaml")["spec"]["maxUnavailable"] == 1


def test_every_selector_finds_the_pods() -> None:
    labels = deployment()["template"]["metadata"]["labels"]
    selected = [deployment()["selector"]["matchLabels"]]
    selected += [pod()["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]]
    selected += [read_yaml(BASE / name)["spec"]["selector"] for name in ("service.yaml", "metrics.yaml")]
    selected += [read_yaml(BASE / "disruption.yaml")["spec"]["selector"]["matchLabels"]]
    selected += [read_yaml(OVERLAY / "network.yaml")["spec"]["podSelector"]["matchLabels"]]

    assert all(one.items() <= labels.items() for one in selected)
    assert all(read_yaml(path)["metadata"]["labels"] == labels for path in OBJECTS)
