"""Declares the toolset `news`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "news",
    about="articles of feeds",
    requires="news",
    menu=True,
    title=Words("News feeds", "Nachrichten-Feeds"),
    icon="M5 18.5h.5M5 12a7 7 0 0 1 7 7M5 5.5A13.5 13.5 0 0 1 18.5 19",
    scopes=(
        Scope(
            "news:read",
            what=Words("Read your feeds", "Deine Feeds lesen"),
            detail=Words(
                "See the feeds you follow and read their articles.",
                "Die Feeds sehen, denen du folgst, und ihre Artikel lesen.",
            ),
        ),
        Scope(
            "news:write",
            what=Words("Mark articles of your feeds", "Artikel deiner Feeds markieren"),
            detail=Words(
                "Mark articles as read or unread, and give or take their stars.",
                "Artikel als gelesen oder ungelesen markieren und Sterne geben oder nehmen.",
            ),
        ),
    ),
    actions={
        "nc_news_list_feeds": Words("Listed your feeds", "Hat deine Feeds aufgelistet"),
        "nc_news_read_articles": Words("Listed or read articles", "Hat Artikel aufgelistet oder gelesen"),
        "nc_news_mark_articles": Words("Marked articles", "Hat Artikel markiert"),
    },
    audit_fields=("article_id", "article_ids", "feed_id", "folder_id"),
)
