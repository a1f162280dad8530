"""The template for Unraid's Docker page, in the form that the page itself saves."""

from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from release.facts import DATA, MANY_USERS, SECRETS, Facts, default_of, description_of, port

#: `nobody:users`, to whom Unraid's shares belong.
USER: Final = "99:100"
_FOLDER: Final = "/mnt/user/appdata/nextcloud-mcp"
_HARDENING: Final = f"--user {USER} --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges"
#: Variable, its name on the page, whether it is required.
_VARIABLES: Final = (
    ("NEXTCLOUD_HOST", "Nextcloud address", True),
    ("NEXTCLOUD_MCP_SERVER_URL", "Public address of this server", True),
    ("TRUSTED_PROXIES", "Address of the reverse proxy", True),
    ("TOOLSETS", "Groups of tools", False),
    ("READ_ONLY", "Read only", False),
    ("ALLOWED_GROUPS", "Nextcloud groups that may sign in", False),
)


def template(facts: Facts) -> str:
    """Return the XML of the template."""
    root = Element("Container", version="2")
    texts = {
        "Name": "nextcloud-mcp-server",
        "Repository": f"{facts.image}:{facts.version}",
        "Registry": f"https://{facts.image}",
        "Network": "bridge",
        "Shell": "sh",
        "Privileged": "false",
        "Support": f"{facts.url}/issues",
        "Project": facts.url,
        "Overview": (
            f"{facts.description}. Users of your Nextcloud add one address to their chat client, and sign in with "
            f"Nextcloud. Before the first start follow {facts.documentation}#unraid."
        ),
        "Category": "Cloud: Productivity: Tools:",
        "ExtraParams": _HARDENING,
    }
    for name, text in texts.items():
        SubElement(root, name).text = text
    _config(root, "Port", "Port", port(), value=port(), mode="tcp", required=True)
    _config(root, "Path", "Data", DATA, value=f"{_FOLDER}/data", mode="rw", required=True)
    _config(root, "Path", "Secrets", SECRETS, value=f"{_FOLDER}/secrets", mode="ro", required=True)
    for variable, name, required in _VARIABLES:
        _config(root, "Variable", name, variable, value=default_of(variable), required=required)
    for variable, value in MANY_USERS.items():
        _config(root, "Variable", variable, variable, value=value, required=True, display="advanced-hide")
    indent(root)
    return f'<?xml version="1.0"?>\n{tostring(root, encoding="unicode")}\n'


def _config(
    root: Element,
    kind: str,
    name: str,
    target: str,
    *,
    value: str,
    required: bool,
    mode: str = "",
    display: str = "always",
) -> None:
    entry = SubElement(
        root,
        "Config",
        Name=name,
        Target=target,
        Default=value,
        Mode=mode,
        Description=description_of(target) if kind == "Variable" and not target.endswith("_FILE") else "",
        Type=kind,
        Display=display,
        Required=str(required).lower(),
        Mask="false",
    )
    entry.text = value
