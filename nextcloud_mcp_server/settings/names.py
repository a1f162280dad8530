"""Names of the settings' variables, and what a misspelt one probably meant."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nextcloud_mcp_server.errors import ConfigurationError

#: Fields whose variable is not just the field in capitals: HOST and PORT belong to shells and hosters.
_OTHER_NAMES = {"host": "NEXTCLOUD_MCP_HOST", "port": "NEXTCLOUD_MCP_PORT"}
#: Fields that a command's options set, and nothing else.
COMMAND_LINE_ONLY = frozenset({"transport", "sandbox", "sandbox_version", "no_local_auth"})
#: Fields that can also be read from the file that `<NAME>_FILE` names.
SECRETS = frozenset(
    {
        "nextcloud_app_password",
        "database_url",
        "token_encryption_keys",
        "nextcloud_mcp_secret",
        "oidc_client_secret",
        "introspection_client_secret",
        "client_metadata_proxy",
        # No secret, but `setup nextcloud --into` writes the two together.
        "nextcloud_oauth_client_id",
        "nextcloud_oauth_client_secret",
    }
)
#: Fields that a client's entry names by an option, or that mean nothing over stdio.
NOT_CARRIED = frozenset({"mode", "nextcloud_host", "toolsets", "host", "port", "nextcloud_mcp_secret"})
#: Fields that hold a web address.
ADDRESSES = (
    "nextcloud_host",
    "nextcloud_public_url",
    "nextcloud_mcp_server_url",
    "oidc_issuer",
    "elicitation_callback_url",
)
#: Fields that have an effect for many users alone, in the order of the documentation: in both modes,
#: with `MODE=oidc`, with `MODE=builtin`.
BOTH_MODES = (
    "nextcloud_oauth_client_id",
    "nextcloud_oauth_client_secret",
    "elicitation_callback_url",
    "trusted_proxies",
    "sign_in_scopes",
    "requests_per_minute",
)
OIDC = (
    "oidc_issuer",
    "oidc_client_id",
    "oidc_client_secret",
    "oidc_audience",
    "oidc_identity_claim",
    "oidc_token_types",
    "token_scopes",
    "scope_prefix",
    "introspection_client_id",
    "introspection_client_secret",
    "account_mapping",
    "grant_provider",
    "nextcloud_resource",
)
BUILTIN = (
    "allowed_clients",
    "denied_clients",
    "allowed_groups",
    "client_registration",
    "client_metadata_documents",
    "client_metadata_proxy",
    "private_schemes",
    "plain_hosts",
    "refresh_grace_seconds",
    "refresh_lifetime_days",
)
#: Claims whose value a user may change, or an administrator give to another one (OpenID Connect Core §5.7).
MUTABLE_CLAIMS = frozenset(
    {"email", "preferred_username", "username", "nickname", "name", "upn", "phone_number"}
)
MANY_PEOPLE = (*BOTH_MODES, *OIDC, *BUILTIN)

#: Every field that a variable can set, in the order of the documentation.
FIELDS = (
    "mode",
    "nextcloud_host",
    "nextcloud_public_url",
    "nextcloud_mcp_server_url",
    "nextcloud_username",
    "nextcloud_app_password",
    "nextcloud_ca_bundle",
    "data_dir",
    "database_url",
    "token_encryption_keys",
    "nextcloud_mcp_secret",
    "elicitation_dialect",
    "elicitation_timeout_seconds",
    "hold_seconds",
    "update_seconds",
    "toolsets",
    "exclude_tools",
    "read_only",
    "local_folder",
    "output_schemas",
    "log_level",
    "host",
    "port",
    *MANY_PEOPLE,
)

_PREFIXES = ("NEXTCLOUD_", "OIDC_", "ELICITATION_", "INTROSPECTION_", "TOKEN_")
#: Set for the tests against a real Nextcloud; they are no settings of the server.
_TEST_PREFIX = "NEXTCLOUD_TEST_"
#: Names without our prefixes are other programs' unless they are this similar to one of ours.
_NEAR_MISS = 0.85
_SHORTEST_NEAR_MISS = 7


def env_name(field: str) -> str:
    """Name the variable that sets a field."""
    if field in COMMAND_LINE_ONLY:
        return "--" + field.replace("_", "-")
    return _OTHER_NAMES.get(field, field.upper())


def known_variables() -> list[str]:
    """List every variable that is read, the `_FILE` forms included."""
    names = [env_name(field) for field in FIELDS]
    return [*names, *(f"{env_name(field)}_FILE" for field in FIELDS if field in SECRETS)]


def read_text(environ: Mapping[str, str], field: str) -> str | None:
    """Find one field's text. An empty variable counts as not set."""
    if field in COMMAND_LINE_ONLY:
        return None
    name = env_name(field)
    text = environ.get(name) or None
    if field == "nextcloud_host":
        other = environ.get("NEXTCLOUD_URL") or None
        if text and other and text != other:
            raise ConfigurationError(
                "NEXTCLOUD_HOST and NEXTCLOUD_URL name different servers: keep NEXTCLOUD_HOST alone."
            )
        return text or other
    file = environ.get(f"{name}_FILE") or None if field in SECRETS else None
    if file is None:
        return text
    if text is not None:
        raise ConfigurationError(f"{name} and {name}_FILE are both set: keep one of them.")
    return _read_file(f"{name}_FILE", Path(file))


def _read_file(name: str, path: Path) -> str:
    # The path stays unsaid: a user may have put the secret itself where its file belongs.
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        writer = (
            "'nextcloud-mcp-server setup nextcloud --into' its folder writes it"
            if name.startswith("NEXTCLOUD_OAUTH_CLIENT")
            else "check the path"
        )
        raise ConfigurationError(f"{name} names a file that does not exist: {writer}.") from None
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(
            f"{name} names a file that cannot be read as text: check path and rights."
        ) from None
    if not text:
        raise ConfigurationError(
            f"{name} names a file that is empty: what was to write it has failed, so make it again."
        )
    return text


def closest(name: str) -> str:
    """Say what a misspelt name probably meant, as the end of a sentence, or nothing."""
    matches = get_close_matches(name, known_variables(), n=1, cutoff=0.6)
    return f": did you mean {matches[0]}?" if matches else ""


def explain(error: ValidationError) -> str:
    """Write what is wrong with the settings, without their values."""
    sentences: list[str] = []
    for problem in error.errors(include_input=False, include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            sentences.append(f"There is no setting {env_name(name)}{closest(env_name(name))}.")
        else:
            sentences.append(f"{env_name(name)} is not right: {_wanted(problem)}.")
    return " ".join(sentences)


def _wanted(problem: ErrorDetails) -> str:
    """Say what a value should be, in an operator's words where pydantic's are a programmer's."""
    match problem["type"], problem.get("ctx", {}):
        case "bool_parsing", _:
            return "use true or false"
        case "int_parsing", _:
            return "use a whole number"
        case "greater_than_equal", {"ge": least}:
            return f"use {least} or more"
        case "less_than_equal", {"le": most}:
            return f"use {most} or less"
        case "literal_error", {"expected": choices}:
            return f"use {str(choices).replace(chr(39), '')}"
        case _:
            return f"{problem['msg'][:1].lower()}{problem['msg'][1:]}"


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Write a warning for each variable that looks like one of ours and is not read."""
    known = set(known_variables())
    return [sentence for name in sorted(environ) for sentence in _about(name, known)]


def _about(name: str, known: set[str]) -> Iterable[str]:
    if name in known or name.startswith(_TEST_PREFIX):
        return
    if name == "NEXTCLOUD_URL":
        yield "NEXTCLOUD_URL is read, but its name here is NEXTCLOUD_HOST: rename it."
    elif name.startswith(_PREFIXES):
        yield f"{name} is not read{closest(name) or '.'}"
    elif len(name) >= _SHORTEST_NEAR_MISS and get_close_matches(name, known, n=1, cutoff=_NEAR_MISS):
        yield f"{name} is not read{closest(name)}"


def mutable_identity(claim: str) -> list[str]:
    """Warn of a claim that may come to name another user."""
    if claim not in MUTABLE_CLAIMS:
        return []
    return [
        f"OIDC_IDENTITY_CLAIM={claim} can change hands: whoever gets it then has the former user's connection. Use sub."
    ]
