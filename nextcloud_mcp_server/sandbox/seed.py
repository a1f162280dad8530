"""The users, notes and files of a demo sandbox."""

from dataclasses import dataclass

from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from nextcloud_mcp_server.sandbox.calendar_seed import seed_calendars
from nextcloud_mcp_server.sandbox.catalogue import APPS
from nextcloud_mcp_server.sandbox.node import Comment
from nextcloud_mcp_server.sandbox.paper import pdf
from nextcloud_mcp_server.sandbox.previews import PIXEL
from nextcloud_mcp_server.sandbox.state import Share, State, User

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
    _add_contacts(state, alice)
    seed_calendars(state)
    for app in APPS:
        if app.seed is not None:
            app.seed(state)


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


def _add_file(user: User, path: str, content: bytes) -> None:
    user.files.make_folder(path.rpartition("/")[0], parents=True)
    user.files.put(path, content)
