"""The servers for comparison, each in its own process: `python baseline.py [PORT]`.

`baseline` is the SDK with one tool that does nothing. With BENCH_UPSTREAM set it is `thin`: the same with one more
tool that passes one request through, the minimum of a useful server.
"""

import os
import sys
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("floor")


@server.tool()
async def noop() -> str:
    """Do nothing."""
    return "ok"


def add_request_tool(upstream: str) -> None:
    """Add the tool of the `thin` server, whose one pool is opened here, before the first call."""
    jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    auth = (os.environ["BENCH_USER"], os.environ["BENCH_PASSWORD"])
    pool = httpx2.AsyncClient(base_url=upstream, auth=auth, cookies=jar, timeout=60)

    @server.tool()
    async def request(method: str, path: str, depth: str = "") -> str:
        """Send one request and pass the text through."""
        headers = {"OCS-APIRequest": "true"} | ({"Depth": depth} if depth else {})
        return (await pool.request(method, path, headers=headers)).text

    _ = request


def main() -> None:
    """Serve over stdio, or over HTTP when a port is given."""
    if upstream := os.environ.get("BENCH_UPSTREAM"):
        add_request_tool(upstream)
    if len(sys.argv) > 1:
        app = server.streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
