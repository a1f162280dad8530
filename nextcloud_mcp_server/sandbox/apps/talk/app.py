"""Declares the app spreed of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.talk.api import answer_talk
from nextcloud_mcp_server.sandbox.apps.talk.store import TalkStore
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State, User

_DAY_SECONDS = 86_400
_TALK_FEATURES = ("chat-v2", "chat-replies", "chat-keep-notifications", "reactions", "silent-send")


def _capability(context: Context, _user: User) -> dict[str, object]:
    return {
        "features": [*_TALK_FEATURES, *(["react-permission"] if context.profile.react_permission else [])],
        "config": {"chat": {"max-length": 32000, "read-privacy": 0}},
        "version": context.profile.talk,
    }


def _add_conversations(state: State) -> None:
    """Let alice and bob talk about the office move."""
    talk, now = state.store(TalkStore), int(state.clock().timestamp())
    alice = {"type": "user", "id": "alice", "name": "Alice Example"}
    group = talk.add_room("officemove", 2, "Office move", ["alice", "bob"])
    made = talk.say(group, "alice", "{actor} created the conversation", now - 3 * _DAY_SECONDS)
    made.system, made.parameters = "conversation_created", {"actor": alice}
    first = talk.say(group, "alice", "Who orders the boxes?", now - 2 * _DAY_SECONDS)
    answer = talk.say(group, "bob", "{mention-user1} I do: **40** of them.", now - _DAY_SECONDS)
    answer.parameters, answer.parent = {"mention-user1": alice}, first.id
    answer.reactions = {"👍": ["alice"]}
    talk.say(talk.add_room("b0bandalice", 1, "", ["alice", "bob"]), "bob", "Lunch at one?", now - 3600)


app = SandboxApp(
    "spreed", ocs={"apps/spreed/api": answer_talk}, capability=_capability, seed=_add_conversations
)
