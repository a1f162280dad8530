"""Declares the toolset `news`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "news",
    about="articles of feeds",
    requires="news",
    menu=True,
    title="News feeds",
    icon="M5 18.5h.5M5 12a7 7 0 0 1 7 7M5 5.5A13.5 13.5 0 0 1 18.5 19",
    scopes=(
        Scope(
            "news:read",
            what="Read your feeds",
            detail="See the feeds you follow and read their articles.",
        ),
        Scope(
            "news:write",
            what="Mark articles of your feeds",
            detail="Mark articles as read or unread, and give or take their stars.",
        ),
    ),
    actions={
        "nc_news_list_feeds": "Listed your feeds",
        "nc_news_read_articles": "Listed or read articles",
        "nc_news_mark_articles": "Marked articles",
    },
    audit_fields=("article_id", "article_ids", "feed_id", "folder_id"),
    named_by=("title",),
    earlier_tools={
        "nc_news_read_articles": (
            "nc_news_list_items",
            "nc_news_get_item",
            "nc_news_get_starred_items",
            "nc_news_get_unread_items",
            "nc_news_list_folders",
        ),
    },
)
