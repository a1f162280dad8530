"""Answers of a Nextcloud that refuses or is down, in the form that each area uses."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.faults import Area, FaultStatus
from nextcloud_mcp_server.sandbox.identity import Refusal, refuse_dav, refuse_json, refuse_ocs
from nextcloud_mcp_server.sandbox.profile import Profile
from nextcloud_mcp_server.sandbox.reply import dav_error, json_reply, maintenance_page, ocs_reply, page

_EXCEPTIONS = {423: "OCP\\Lock\\LockedException", 507: "OCA\\Notes\\Service\\InsufficientStorageException"}


def faulty_reply(request: Request, area: Area, status: FaultStatus, profile: Profile) -> Response:
    """Answer with this status as the area would; 503 is maintenance mode."""
    if area == "dav":
        return _dav_reply(request, status)
    if area == "ocs":
        return _ocs_reply(request, status)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return maintenance_page()
    if area != "notes":
        return page("Nextcloud", f"<h1>Error {status}</h1>", status=status)
    if status in _EXCEPTIONS:
        error = "Exception" if profile.newer_notes else _EXCEPTIONS[status]
        return json_reply({"errorType": error}, status=status)
    return refuse_json(_refusal(status))


def _refusal(status: FaultStatus) -> Refusal:
    return Refusal.THROTTLED if status == HTTPStatus.TOO_MANY_REQUESTS else Refusal.BAD_PASSWORD


def _dav_reply(request: Request, status: FaultStatus) -> Response:
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        exception = "OCA\\DAV\\Exception\\ServerMaintenanceMode"
        return dav_error(status, exception, "System is in maintenance mode.")
    if status == HTTPStatus.LOCKED:
        name = request.scope["path"].rpartition("/")[2]
        return dav_error(status, "OCA\\DAV\\Connector\\Sabre\\Exception\\FileLocked", f'"{name}" is locked')
    if status == HTTPStatus.INSUFFICIENT_STORAGE:
        return dav_error(status, "Sabre\\DAV\\Exception\\InsufficientStorage", "Insufficient space available")
    return refuse_dav(request, _refusal(status))


def _ocs_reply(request: Request, status: FaultStatus) -> Response:
    # This runs before the router, which would have read the version from the path.
    request.scope["path_params"] = {"version": "1" if "/ocs/v1.php/" in request.scope["path"] else "2"}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = {"X-Nextcloud-Maintenance-Mode": "1"}
        response = ocs_reply(request, code=status, message="Service unavailable", headers=headers)
        # Both versions show this status.
        response.status_code = status
        return response
    if status in _EXCEPTIONS:
        return ocs_reply(request, code=status, message=_EXCEPTIONS[status])
    return refuse_ocs(request, _refusal(status))
