"""Declares the toolset `deck`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "deck",
    about="Deck boards",
    requires="deck",
    title="Deck",
    icon="M4 5h6.5v14H4ZM13.5 5H20v8.5h-6.5Z",
    scopes=(
        Scope(
            "deck:read",
            what="Read your Deck boards",
            detail="See boards, cards and their comments.",
        ),
        Scope(
            "deck:write",
            what="Change your Deck boards",
            detail="Add, change, move, comment and delete cards.",
            outward=True,
        ),
    ),
    actions={
        "nc_deck_list_boards": "Listed boards",
        "nc_deck_get_board": "Looked at a board",
        "nc_deck_get_card": "Read a card",
        "nc_deck_create_card": "Added a card",
        "nc_deck_update_card": "Changed a card",
        "nc_deck_move_card": "Moved a card",
        "nc_deck_delete_card": "Deleted a card",
    },
    audit_fields=("title", "board_id", "stack_id", "to_stack_id", "card_id"),
    named_by=("title",),
)
