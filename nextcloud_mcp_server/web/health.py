"""The health check."""

from starlette.requests import Request
from starlette.responses import JSONResponse


async def healthz(_request: Request) -> JSONResponse:
    """Answer at once, without asking the database or Nextcloud: a restart would not fix those."""
    return JSONResponse({"status": "ok"})
