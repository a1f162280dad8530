"""The apps of the sandbox: every module and package below `apps` that declares one."""

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from nextcloud_mcp_server.sandbox import apps
from nextcloud_mcp_server.sandbox.declaration import SandboxApp


def _declared(name: str, *, in_package: bool) -> SandboxApp:
    module = import_module(f"{apps.__name__}.{name}.app" if in_package else f"{apps.__name__}.{name}")
    return cast("SandboxApp", module.app)


APPS: tuple[SandboxApp, ...] = tuple(
    _declared(found.name, in_package=found.ispkg) for found in iter_modules(apps.__path__)
)
