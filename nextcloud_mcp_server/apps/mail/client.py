"""The Mail app (OCS): accounts, mailboxes and messages, read-only.

All models follow the controllers `AccountApi`, `MailboxesApi` and `MessageApi` of version 5.9.3 and the classes they
serialize (`Db/Mailbox`, `Db/Message`, `Model/IMAPMessage`), and were observed with an IMAP server. Mailboxes and
messages can be listed since 5.2.0. Reading a message does not mark it as read: Mail only peeks. The time of a message
is the one at which the mail server received it, not the one its sender wrote.

A message has results of its own: a list shows little of it, and its text is a document.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, cast
from urllib.parse import quote

from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.php_json import LIST, MAP, as_list, as_map
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import Flag, Result
from nextcloud_mcp_server.tools.untrusted_text import cleaned, line

_BASE: Final = "/apps/mail"
_ASK: Final = "Call nc_mail_list_mailboxes for the ones there are."
_NO_ACCOUNT: Final = (
    "There is no such mail account among the person's, or the app Mail is missing or older than 5.2. "
    "Call nc_mail_list_mailboxes without account_id."
)
_NO_MAILBOX: Final = f"There is no such mailbox among the person's. {_ASK}"
_NOT_LISTED: Final = (
    f"Mail could not list this mailbox. Either it is not the person's ({_ASK[:-1]}), or the person never opened "
    "it in Mail, so that Mail knows nothing in it yet, or Mail is fetching it right now: then try again later."
)
_NO_MESSAGE: Final = (
    "There is no such message among the person's. Call nc_mail_list_messages for those there are."
)
_NOT_FETCHED: Final = (
    "Mail could not fetch this from the mail server. Try again later; if it stays, the person should look "
    "whether the account works in Mail."
)
#: The maximum that Mail returns at once.
MOST: Final = 100
#: The limit for the lists of addresses, and of attachments, of one account or message.
LIST_BYTES: Final = 2_000


def _aliases(value: object) -> object:
    listed = as_list(value)
    if not isinstance(listed, list):
        return listed
    emails = (as_map(one).get("email") for one in cast("list[object]", listed))
    return pagination.fitting([line(email) for email in emails if isinstance(email, str)], LIST_BYTES) or None


def _role(value: object) -> object:
    return line(value) or None if isinstance(value, str) else None


class MailAccount(Result):
    """A mail account; `delegated` is another user's, to which the person has access."""

    id: Id
    email: Annotated[str, cleaned(line)]
    aliases: Annotated[list[str] | None, BeforeValidator(_aliases)] = None
    delegated: Flag = Field(default=None, validation_alias="isDelegated")


class Mailbox(Result):
    """A mailbox; `role` is what it is for, such as inbox, sent, drafts, junk or trash."""

    id: Id = Field(validation_alias="databaseId")
    name: Annotated[str, cleaned(line)]
    #: 0 for other mailboxes.
    role: Annotated[str | None, BeforeValidator(_role)] = Field(default=None, validation_alias="specialRole")
    unread: int | None = None


class Address(Answer):
    """A sender or recipient: display name and address."""

    label: str | None = None
    email: str | None = None


Addresses = Annotated[list[Address], LIST]


def _file_name(text: str) -> str:
    return line(text, 200) or "without a name"


def _media_type(text: str) -> str | None:
    return line(text, 100) or None


class Attachment(Result):
    """A file that came with a message."""

    name: Annotated[str, cleaned(_file_name)] = Field(
        default_factory=lambda: _file_name(""), validation_alias=AliasChoices("fileName", "filename")
    )
    type: Annotated[str | None, cleaned(_media_type)] = Field(default=None, validation_alias="mime")
    size: int | None = None


Attachments = Annotated[list[Attachment], LIST]


class MessageStub(Answer):
    """A message in a list."""

    id: Id = Field(validation_alias=AliasChoices("databaseId", "id"))
    subject: str | None = None
    sent_at: int | None = Field(default=None, validation_alias="dateInt")
    senders: Addresses = Field(default_factory=list[Address], validation_alias="from")
    to: Addresses = Field(default_factory=list[Address])
    flags: Annotated[dict[str, Any], MAP] = Field(default_factory=dict[str, Any])
    preview: str | None = Field(default=None, validation_alias="previewText")
    attachments: Attachments = Field(default_factory=list[Attachment])

    def has(self, flag: str) -> bool:
        """Tell whether the message has a flag, such as `seen`."""
        return self.flags.get(flag) is True


class _Phishing(Answer):
    warning: bool | None = None


class _Smime(Answer):
    signed: bool | None = Field(default=None, validation_alias="isSigned")
    valid: bool | None = Field(default=None, validation_alias="signatureIsValid")


class Message(MessageStub):
    """One message. The body is HTML; Mail escapes plain text and turns addresses into links."""

    cc: Addresses = Field(default_factory=list[Address])
    reply_to: Addresses = Field(default_factory=list[Address], validation_alias="replyTo")
    is_html: bool | None = Field(default=None, validation_alias="hasHtmlBody")
    #: None where Mail could not decrypt it.
    body: str | None = None
    signature: str | None = None
    inline: Attachments = Field(default_factory=list[Attachment], validation_alias="inlineAttachments")
    phishing: Annotated[_Phishing, MAP] = Field(default_factory=_Phishing, validation_alias="phishingDetails")
    smime: Annotated[_Smime, MAP] = Field(default_factory=_Smime)


_ACCOUNTS = TypeAdapter(ocs.Envelope[Annotated[list[MailAccount], LIST]])
_MAILBOXES = TypeAdapter(ocs.Envelope[Annotated[list[Mailbox], LIST]])
_MESSAGES = TypeAdapter(ocs.Envelope[Annotated[list[MessageStub], LIST]])


class MailClient(AppClient):
    """Reads one user's mail."""

    async def accounts(self) -> list[MailAccount]:
        """Fetch the accounts that the user has set up in Mail, and those delegated to the user."""
        sentences = {404: _NO_ACCOUNT}
        return (await ocs.get(self._http, f"{_BASE}/account/list", _ACCOUNTS, sentences=sentences))[0]

    async def mailboxes(self, account_id: Id) -> list[Mailbox]:
        """Fetch the mailboxes of an account; Mail may have to query the mail server.

        Raises:
          NotFound: No such account.
        """
        params = {"accountId": account_id}
        sentences = {404: _NO_ACCOUNT, 500: _NOT_FETCHED}
        path = f"{_BASE}/ocs/mailboxes"
        return (await ocs.get(self._http, path, _MAILBOXES, params=params, sentences=sentences))[0]

    async def messages(
        self, mailbox_id: Id, *, limit: int, before: int | None = None, words: str = ""
    ) -> list[MessageStub]:
        """Fetch single messages, without threads, newest first; those received before second `before`.

        `words` is Mail's search filter.

        Raises:
          Forbidden: No such mailbox.
          ServerFault: It is another user's, or Mail has not synchronized it yet.
        """
        params: dict[str, str | int] = {"limit": limit, "view": "singleton"}
        if before is not None:
            params["cursor"] = before
        if words:
            params["filter"] = words
        sentences = {403: _NO_MAILBOX, 404: _NO_MAILBOX, 500: _NOT_LISTED}
        path = f"{_BASE}/ocs/mailboxes/{mailbox_id}/messages"
        return cut(
            (await ocs.get(self._http, path, _MESSAGES, params=params, sentences=sentences))[0], limit
        ).rows

    async def find(
        self,
        mailbox_id: Id,
        *,
        limit: int,
        before: int | None,
        phrase: str,
        others: Sequence[tuple[str, str]],
    ) -> list[MessageStub]:
        """Fetch messages as `messages` does, with a phrase in the subject or in the body.

        Mail accepts both in one request, but then finds nothing at all where no body has the phrase
        (`MessageMapper::findIdsByQuery` with no uids).
        """
        found: dict[str, MessageStub] = {}
        for kind in ("subject", "body") if phrase else ("",):
            words = search_words([*([(kind, phrase)] if kind else []), *others])
            listed = await self.messages(mailbox_id, limit=limit, before=before, words=words)
            found |= {one.id: one for one in listed}
        return sorted(found.values(), key=lambda one: -(one.sent_at or 0))[:limit]

    async def message(self, message_id: Id) -> Message:
        """Fetch one message with its body, which Mail requests from the mail server.

        Raises:
          NotFound: No such message.
          ServerFault: The mail server failed.
        """
        sentences = {404: _NO_MESSAGE, 500: _NOT_FETCHED}
        return await self._request_ocs("GET", f"{_BASE}/message/{message_id}", Message, sentences=sentences)


def search_words(pairs: Sequence[tuple[str, str]]) -> str:
    """Return Mail's search filter (`FilterStringParser`); everything after each colon is encoded."""
    return " ".join(f"{kind}:{quote(text, safe='')}" for kind, text in pairs)
