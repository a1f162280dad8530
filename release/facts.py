"""What all packages say: read from `pyproject.toml`, the settings and the compose file, written nowhere else."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.settings.names import FIELDS, env_name

ROOT: Final = Path(__file__).parents[1]
TITLE: Final = "Nextcloud"
#: The user of the image, as the Dockerfile makes it.
USER: Final = "10001"
#: The folders that outlast a container: the database, and the keys with the client at Nextcloud.
DATA: Final = "/data"
SECRETS: Final = "/secrets"
#: How the image serves the users of a Nextcloud; `setup` writes the files.
MANY_USERS: Final = {
    "MODE": "builtin",
    "NEXTCLOUD_OAUTH_CLIENT_ID_FILE": f"{SECRETS}/nextcloud-client-id",
    "NEXTCLOUD_OAUTH_CLIENT_SECRET_FILE": f"{SECRETS}/nextcloud-client-secret",
    "TOKEN_ENCRYPTION_KEYS_FILE": f"{SECRETS}/encryption-keys",
}
#: The networks that Docker gives its bridges: a reverse proxy in a container, or on its host, comes from there.
DOCKER_NETWORKS: Final = "172.16.0.0/12"
#: What a user on their own computer is asked for. None of these is a secret.
ASKED: Final = ("NEXTCLOUD_HOST", "TOOLSETS", "READ_ONLY")
_FIELD_OF: Final = {env_name(field): field for field in FIELDS}


@dataclass(frozen=True, slots=True)
class Facts:
    """A version of this program, and the repository that publishes it."""

    repository: str
    name: str
    version: str
    description: str
    licence: str
    author: str
    python: str
    keywords: tuple[str, ...]

    @property
    def url(self) -> str:
        """The address of the repository."""
        return f"https://github.com/{self.repository}"

    @property
    def documentation(self) -> str:
        """The page that people of every package start from."""
        return f"{self.url}/blob/{self.tag}/docs/packaging.md"

    @property
    def tag(self) -> str:
        """The tag of the version."""
        return f"v{self.version}"

    @property
    def image(self) -> str:
        """The name of the container image, without its tag."""
        return f"ghcr.io/{self.repository.lower()}"

    @property
    def server_name(self) -> str:
        """The name in the MCP registry, which lets the owner of a repository use no other."""
        owner, _, name = self.repository.partition("/")
        return f"io.github.{owner}/{name}"

    @property
    def bundle(self) -> str:
        """The file name of the bundle for desktop applications."""
        return f"{self.name}-{self.version}.mcpb"

    @property
    def sbom(self) -> str:
        """The file name of the list of parts."""
        return f"{self.name}-{self.version}.cdx.json"


def read(repository: str, root: Path = ROOT) -> Facts:
    """Read the facts of this checkout.

    Raises:
        ValueError: `repository` is not the name of an owner and of a repository.
    """
    if len(parts := repository.split("/")) != len(("owner", "name")) or not all(parts):
        raise ValueError(f"{repository!r} is not of the form OWNER/NAME.")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Facts(
        repository=repository,
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licence=project["license"],
        author=project["authors"][0]["name"],
        python=project["requires-python"],
        keywords=tuple(project["keywords"]),
    )


def port() -> str:
    """Return the port that the server listens on if no setting says otherwise."""
    return default_of("NEXTCLOUD_MCP_PORT")


def description_of(variable: str) -> str:
    """Return the description of a setting as plain text."""
    return (Settings.model_fields[_FIELD_OF[variable]].description or "").replace("`", "")


def default_of(variable: str) -> str:
    """Return the default of a setting as its variable would have it."""
    value: object = Settings.model_fields[_FIELD_OF[variable]].default
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return str(value)
