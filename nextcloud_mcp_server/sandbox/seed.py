"""The users, notes and files of a demo sandbox."""

from dataclasses import dataclass

from nextcloud_mcp_server.sandbox import collectives, cookbook
from nextcloud_mcp_server.sandbox.calendar_seed import seed_calendars
from nextcloud_mcp_server.sandbox.deck_store import DeckBoard, DeckCard, DeckLabel, DeckStack
from nextcloud_mcp_server.sandbox.form_store import StoredForm
from nextcloud_mcp_server.sandbox.news_store import StoredFeeds
from nextcloud_mcp_server.sandbox.node import Comment
from nextcloud_mcp_server.sandbox.note_store import Changes, NoteStore
from nextcloud_mcp_server.sandbox.paper import pdf
from nextcloud_mcp_server.sandbox.previews import PIXEL
from nextcloud_mcp_server.sandbox.state import Share, State, User, UserStatus

_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class _Note:
    title: str
    category: str
    content: str
    age_days: int
    favorite: bool = False


_ALICE_NOTES = (
    _Note(
        "Shopping list",
        "",
        "# Shopping list\n\n- [ ] oat milk\n- [ ] tomatoes\n- [x] coffee\n- [ ] batteries (AA)\n",
        age_days=1,
        favorite=True,
    ),
    _Note(
        "Meeting 2026-11-20",
        "Work",
        "# Meeting 2026-11-20\n\nPresent: Alice, Bob, Chandra\n\n"
        "- The office move is on 12 January. Bob orders the boxes.\n"
        "- Budget draft goes round until Friday, see Documents/Budget 2027.csv.\n"
        "- Next meeting: 4 December, 10:00.\n",
        age_days=7,
    ),
    _Note(
        "Project Kestrel",
        "Work/Projects",
        "# Project Kestrel\n\nGoal: a bird counter for the school garden.\n\n"
        "## Open questions\n\n1. Solar panel or mains?\n2. Who writes the letter to the parents?\n",
        age_days=12,
    ),
    _Note(
        "Pancakes",
        "Recipes",
        "# Pancakes\n\n- 250 g flour\n- 4 eggs\n- 500 ml milk\n- a pinch of salt\n\n"
        "Rest for 20 minutes, then fry in butter.\n",
        age_days=40,
    ),
    _Note(
        "Books to read",
        "Reading",
        "# Books to read\n\n- The Left Hand of Darkness\n- Die Vermessung der Welt\n- 雪国\n",
        age_days=3,
        favorite=True,
    ),
)

_ALICE_FILES = {
    "Readme.md": "## Welcome to the sandbox\n\nThese files live in memory and go when the program ends.\n",
    "Documents/Welcome.md": "# Welcome\n\nEverything you and your assistant need is in these folders.\n",
    "Documents/Budget 2027.csv": "item,euro\nrent,12000\nheating,2400\ncoffee,640\n",
    "Documents/Travel plan.md": "# Lisbon in May\n\n- Train to Zürich on the 3rd, 09:32\n- Flight at 14:10\n",
    "Documents/Contracts/Internet.txt": "Customer number 48-2231. Two months' notice, ends 2027-03-31.\n",
}
_ALICE_LEASE = (
    "Lease for 12 Elm Street",
    "The rent is 1,000 euro a month, due on the 3rd.",
    "Notice is three months, in writing.",
)
_ALICE_PICTURES = ("Photos/Garden.png", "Photos/Lisbon/Tram 28.png")

_BOB_NOTES = (
    _Note("Boxes", "Work", "# Boxes\n\n40 large, 25 small, delivery on 8 January.\n", age_days=5),
    _Note("Garage code", "", "# Garage code\n\nAsk Chandra; it changes every month.\n", age_days=20),
)
_BOB_FILES = {
    "Readme.md": "## Welcome to the sandbox\n\nThese are Bob's files.\n",
    "Documents/Office move.md": "# Office move\n\n- [ ] order boxes\n- [ ] label the cables\n",
}

_ALICE_CONTACTS = (
    ("Chandra Rao", "Rao;Chandra;;;", "Kestrel Garden Centre", "chandra@example.test", "+49 30 5550123"),
    ("Zoë Müller", "Müller;Zoë;;;", "", "zoe@example.test", "+49 171 5550199"),
)

_ALICE_LABELS = (("Urgent", "e9322d"), ("Later", "f1db50"))
_ALICE_STACKS = {
    "To do": (("Order boxes", "40 large, 25 small."), ("Label the cables", "")),
    "Doing": (("Write to the landlord", "By the end of the month."),),
    "Done": (),
}

_PLACES = [{"id": 1, "label": "Office"}, {"id": 2, "label": "Cellar"}]
_INVENTORY_COLUMNS = (
    {"title": "Item", "type": "text", "subtype": "line", "mandatory": True},
    {"title": "Count", "type": "number", "numberMin": 0, "numberMax": 100},
    {"title": "Place", "type": "selection", "selectionOptions": _PLACES},
    {"title": "Checked", "type": "selection", "subtype": "check"},
)
_INVENTORY = (("Chairs", 12, "1", "true"), ("Lamps", 7, "1", "false"), ("Boxes", 40, "2", "false"))

_ALICE_RECIPES = (
    {
        "name": "Cheesecake",
        "description": "As grandmother made it.",
        "recipeIngredient": ["500 g quark", "200 g sugar", "4 eggs", "1 lemon"],
        "recipeInstructions": ["Stir everything together.", "Bake it for 50 minutes at 170 °C."],
        "recipeYield": 8,
        "recipeCategory": "Cakes",
        "keywords": "sweet,baking",
        "totalTime": "PT1H15M0S",
    },
    {
        "name": "Lentil soup",
        "recipeIngredient": ["250 g red lentils", "2 carrots", "1 l broth"],
        "recipeInstructions": ["Cook it all for 20 minutes."],
        "recipeYield": 4,
        "recipeCategory": "Soups",
        "keywords": "quick",
    },
)
_ALICE_PAGES = {
    "Hedges": "# Hedges\n\n- Water them on Mondays and Thursdays\n- The key hangs in the hall\n",
    "Street party": "# Street party\n\nOn 12 June, from 15:00. Everybody brings a chair.\n",
}


_ALICE_ARTICLES = (
    ("Market moves to Fridays", "<p>From December on the market is on <b>Fridays</b>.</p>"),
    ("Hedges in winter", "<h2>Cut them now</h2><ul><li>Not below 5 °C</li><li>Leave the berries</li></ul>"),
    ("Library closed", "<p>It is closed until the 8th.</p>"),
)


_BOXES = "Hi Alice,\n\nthe boxes come on 8 January, see https://boxes.example.test/4?a=1&b=2\n\n-- \nBob\n"
_INVOICE = "<h1>Invoice 4711</h1><table><tr><td>2 hedges</td><td>48 euro</td></tr></table>"


def seed(state: State) -> None:
    """Fill an empty sandbox with alice, bob and an admin without files; their passwords are their uids."""
    alice = state.add_user(
        User("alice", "Alice Example", "alice", email="alice@example.test", groups=("team",))
    )
    bob = state.add_user(User("bob", "Bob Builder", "bob", email="bob@example.test", groups=("team",)))
    state.add_user(User("admin", "admin", "admin", admin=True))
    for user, notes, files in ((alice, _ALICE_NOTES, _ALICE_FILES), (bob, _BOB_NOTES, _BOB_FILES)):
        _add_notes(state, user, notes)
        for path, text in files.items():
            _add_file(user, path, text.encode())
    for path in _ALICE_PICTURES:
        _add_file(alice, path, PIXEL)
    _add_file(alice, "Documents/Contracts/Lease.pdf", pdf(_ALICE_LEASE))
    _add_labels(state, alice)
    _add_share(state, bob, alice)
    _add_conversations(state)
    state.statuses["bob"] = UserStatus("busy", by_user=True, message="At the new office", icon="📦")
    _add_contacts(state, alice)
    _add_board(state)
    seed_calendars(state)
    _add_table(state)
    for recipe in _ALICE_RECIPES:
        cookbook.store(alice.files, recipe, state.clock(), made=True)
    _add_form(state)
    _add_feeds(state)
    _add_mail(state)
    team = collectives.add(state, alice, "Neighbourhood", "🏘️")
    for title, text in _ALICE_PAGES.items():
        alice.files.put(f"{team.folder}/{title}.md", text.encode())


def _add_share(state: State, owner: User, receiver: User) -> None:
    """Let one user share a file with another."""
    node = owner.files.get("/Documents/Office move.md")
    now = int(state.clock().timestamp())
    state.shares.append(Share(state.next_share_id(), 0, owner.uid, node, receiver.uid, 1, now))


def _add_labels(state: State, user: User) -> None:
    """Tag a file with two versions, and comment on it."""
    node = user.files.put("/Documents/Budget 2027.csv", b"item,euro\nrent,11000\n", modified_at=1_795_000_000)
    _add_file(user, "Documents/Budget 2027.csv", _ALICE_FILES["Documents/Budget 2027.csv"].encode())
    node.tags.add(state.add_tag("Planning").id)
    now = state.clock().timestamp()
    node.comments.append(Comment(state.next_comment_id(), user.uid, "Is the heating for both floors?", now))


def _add_notes(state: State, user: User, notes: tuple[_Note, ...]) -> None:
    store = NoteStore(user, state.clock)
    now = int(state.clock().timestamp())
    for note in notes:
        changes = Changes(
            title=note.title,
            category=note.category,
            content=note.content,
            modified_at=now - note.age_days * _DAY_SECONDS,
            favorite=note.favorite,
        )
        store.create(changes)


def _add_contacts(state: State, user: User) -> None:
    for number, (name, parts, org, email, phone) in enumerate(_ALICE_CONTACTS, start=1):
        lines = (
            "BEGIN:VCARD", "VERSION:3.0", f"UID:seed-{number}", f"FN:{name}", f"N:{parts}",
            *([f"ORG:{org}"] if org else []), f"EMAIL;TYPE=WORK:{email}", f"TEL;TYPE=CELL:{phone}", "END:VCARD",
        )  # fmt: skip
        card = "".join(f"{line}\r\n" for line in lines)
        user.address_books["contacts"].put(f"contact-{number}.vcf", card, state.clock().timestamp())


def _add_board(state: State) -> None:
    """Let alice plan the office move with bob."""
    deck, now = state.deck, int(state.clock().timestamp())
    board = DeckBoard(next(deck.ids), "Office move", "alice", "0082c9", now, people=["bob"])
    board.labels = [DeckLabel(next(deck.ids), title, color) for title, color in _ALICE_LABELS]
    deck.boards[board.id] = board
    for order, (title, cards) in enumerate(_ALICE_STACKS.items()):
        stack = DeckStack(next(deck.ids), title, board.id, order, now)
        deck.stacks[stack.id] = stack
        for place, (card, text) in enumerate(cards):
            number = next(deck.ids)
            deck.cards[number] = DeckCard(
                number, card, stack.id, "plain", "alice", place, text, None, now, now
            )


def _add_conversations(state: State) -> None:
    """Let alice and bob talk about the office move."""
    talk, now = state.talk, int(state.clock().timestamp())
    alice = {"type": "user", "id": "alice", "name": "Alice Example"}
    group = talk.add_room("officemove", 2, "Office move", ["alice", "bob"])
    made = talk.say(group, "alice", "{actor} created the conversation", now - 3 * _DAY_SECONDS)
    made.system, made.parameters = "conversation_created", {"actor": alice}
    first = talk.say(group, "alice", "Who orders the boxes?", now - 2 * _DAY_SECONDS)
    answer = talk.say(group, "bob", "{mention-user1} I do: **40** of them.", now - _DAY_SECONDS)
    answer.parameters, answer.parent = {"mention-user1": alice}, first.id
    answer.reactions = {"👍": ["alice"]}
    talk.say(talk.add_room("b0bandalice", 1, "", ["alice", "bob"]), "bob", "Lunch at one?", now - 3600)


def _add_table(state: State) -> None:
    """Let alice list what the office has."""
    now = f"{state.clock():%Y-%m-%d %H:%M:%S}"
    table = state.tables.add("Inventory", "📦", "alice", now)
    name, count, place, checked = (
        state.tables.add_column(table, fields, now).id for fields in _INVENTORY_COLUMNS
    )
    for item, number, where, done in _INVENTORY:
        state.tables.add_row(table, {name: item, count: number, place: where, checked: done})


def _add_form(state: State) -> None:
    """Let alice ask who comes to the party; bob may answer, and did."""
    form = StoredForm(1, "DemoFormHash0001", "alice", int(state.clock().timestamp()), title="Street party")
    form.state, form.shown_to = 0, {"bob"}
    form.ask("multiple_unique", "Do you come?", "Yes", "No", required=True)
    form.ask("short", "What do you bring?")
    form.answer("bob", "Bob Builder", form.made_at, [(1, "Yes"), (2, "A salad")])
    state.forms.append(form)


def _add_feeds(state: State) -> None:
    """Let alice follow two feeds."""
    store, now = StoredFeeds(folders={1: "Garden"}), int(state.clock().timestamp())
    garden = store.follow("Kestrel Garden Letter", "https://garden.example.test/feed.xml", 1)
    town = store.follow("Town news", "https://town.example.test/rss")
    for days, (feed, title, body) in enumerate(
        ((town, *_ALICE_ARTICLES[0]), (garden, *_ALICE_ARTICLES[1]), (town, *_ALICE_ARTICLES[2])), start=-3
    ):
        made = store.add(feed, title, body, now + days * _DAY_SECONDS, author="The editors")
        made.url = f"https://example.test/articles/{made.id}"
    store.articles[0].unread = False
    store.articles[1].starred = True
    state.feeds["alice"] = store


def _add_mail(state: State) -> None:
    """Let alice have an account with some mail."""
    account, now = state.mail.add_account("alice", "alice@example.test"), int(state.clock().timestamp())
    inbox = state.mail.add_mailbox(account, "INBOX", "inbox")
    state.mail.add_mailbox(account, "Sent", "sent")
    to = [("Alice Example", "alice@example.test")]
    bob, garden = ("Bob Builder", "bob@example.test"), ("Kestrel Garden Centre", "hello@garden.example.test")
    state.mail.add(inbox, "Boxes", bob, now - 2 * _DAY_SECONDS, _BOXES, to=to, flags={"seen"})
    invoice = state.mail.add(inbox, "Invoice 4711", garden, now - _DAY_SECONDS, _INVOICE, is_html=True, to=to)
    invoice.attachments.append(("Invoice 4711.pdf", "application/pdf", 48_213))
    invoice.flags.add("hasAttachments")


def _add_file(user: User, path: str, content: bytes) -> None:
    user.files.make_folder(path.rpartition("/")[0], parents=True)
    user.files.put(path, content)
