"""Answers health checks."""

from starlette.requests import Request
from starlette.responses import JSONResponse


async def healthz(_request: Request) -> JSONResponse:
    """Answer at once: asks neither the database nor Nextcloud, whose trouble a restart would not cure."""
    return JSONResponse({"status": "ok"})
