"""Declares the toolset `deck`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "deck",
    about="Deck boards",
    requires="deck",
    title=Words("Deck", "Deck"),
    icon="M4 5h6.5v14H4ZM13.5 5H20v8.5h-6.5Z",
    scopes=(
        Scope(
            "deck:read",
            what=Words("Read your Deck boards", "Deine Deck-Boards lesen"),
            detail=Words(
                "See boards, cards and their comments.", "Boards, Karten und ihre Kommentare sehen."
            ),
        ),
        Scope(
            "deck:write",
            what=Words("Change your Deck boards", "Deine Deck-Boards ändern"),
            detail=Words(
                "Add, change, move, comment and delete cards.",
                "Karten anlegen, ändern, verschieben, kommentieren und löschen.",
            ),
            outward=True,
        ),
    ),
    actions={
        "nc_deck_list_boards": Words("Listed boards", "Hat Boards aufgelistet"),
        "nc_deck_get_board": Words("Looked at a board", "Hat ein Board angesehen"),
        "nc_deck_get_card": Words("Read a card", "Hat eine Karte gelesen"),
        "nc_deck_create_card": Words("Added a card", "Hat eine Karte angelegt"),
        "nc_deck_update_card": Words("Changed a card", "Hat eine Karte geändert"),
        "nc_deck_move_card": Words("Moved a card", "Hat eine Karte verschoben"),
        "nc_deck_delete_card": Words("Deleted a card", "Hat eine Karte gelöscht"),
    },
    audit_fields=("title", "board_id", "stack_id", "to_stack_id", "card_id"),
)
