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
    earlier_tools={
        "nc_deck_get_board": (
            "deck_get_board",
            "deck_get_boards",
            "deck_get_board_overview",
            "deck_get_stacks",
            "deck_get_stack",
            "deck_get_labels",
            "deck_get_label",
        ),
        "nc_deck_get_card": (
            "deck_get_card",
            "deck_get_cards",
        ),
        "nc_deck_create_card": ("deck_create_card",),
        "nc_deck_update_card": (
            "deck_update_card",
            "deck_archive_card",
            "deck_unarchive_card",
            "deck_assign_label_to_card",
            "deck_remove_label_from_card",
            "deck_assign_user_to_card",
            "deck_unassign_user_from_card",
        ),
        "nc_deck_move_card": (
            "deck_reorder_card",
            "deck_move_card_to_board",
        ),
        "nc_deck_delete_card": ("deck_delete_card",),
    },
)
