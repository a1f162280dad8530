"""Runs the command line as `python -m nextcloud_mcp_server`."""

from nextcloud_mcp_server.cli import main

if __name__ == "__main__":
    main()
