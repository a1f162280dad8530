"""Declares the toolset `search`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "search",
    about="search in everything",
    title="Search everywhere",
    icon="M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM15.3 15.3 20 20",
    scopes=(
        Scope(
            "search:read",
            what="Search everywhere",
            detail="Look in every app at once, also in those not listed here.",
        ),
    ),
    actions={
        "nc_search_find_items": "Searched everywhere",
    },
    earlier_tools={
        "nc_search_find_items": ("nc_semantic_search",),
    },
)
