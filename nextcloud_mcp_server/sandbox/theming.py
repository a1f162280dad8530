"""The name, colour and logo that the sandbox gives itself, as the app `theming` of 32.0.1 tells them to anyone."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nextcloud_mcp_server.sandbox.context import Context

PRODUCT = "Nextcloud"
_LOGO = "/core/img/logo/logo.svg"


def theming_capability(context: Context, base: str) -> dict[str, object]:
    """Return the theming among the capabilities; `base` is the address of this Nextcloud."""
    logo = f"{base}{_LOGO}?v=0"
    return {
        "name": context.state.name,
        "productName": PRODUCT,
        "url": "https://nextcloud.com",
        "slogan": "a safe home for all your data",
        "color": "#00679e",
        "color-text": "#ffffff",
        "color-element": "#00679e",
        "color-element-bright": "#00679e",
        "color-element-dark": "#00679e",
        "logo": logo,
        "background": f"{base}/apps/theming/img/background/jo-myoung-hee-fluid.webp",
        "background-text": "#ffffff",
        "background-plain": False,
        "background-default": True,
        "logoheader": logo,
        "favicon": logo,
    }


def theming_routes(context: Context) -> list[Route]:
    """Return the route of the logo, a file that the web server sends by itself."""

    async def logo(request: Request) -> Response:
        del request
        media_type, content = context.state.logo
        return Response(content, media_type=media_type)

    return [Route(_LOGO, logo, methods=["GET"])]
