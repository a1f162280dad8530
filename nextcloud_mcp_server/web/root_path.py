"""The path below which the pages lie: none, but on a loopback port, where it is a secret that only the link holds."""

from contextvars import ContextVar

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_root_path: ContextVar[str] = ContextVar("root_path", default="")


def rooted(path: str) -> str:
    """Return a path of this server as the browser must ask for it."""
    return f"{_root_path.get()}{path}"


class BelowRootPath:
    """Hides an application below a path; what lies elsewhere is not found."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application without the root path in its paths."""
        path: str = scope.get("path", "")
        if not path.startswith(f"{self._root_path}/"):
            await PlainTextResponse("Not found", 404)(scope, receive, send)
            return
        inner = {**scope, "path": path.removeprefix(self._root_path)}
        if scope.get("raw_path"):
            inner["raw_path"] = scope["raw_path"].removeprefix(self._root_path.encode())
        token = _root_path.set(self._root_path)
        try:
            await self._app(inner, receive, send)
        finally:
            _root_path.reset(token)
