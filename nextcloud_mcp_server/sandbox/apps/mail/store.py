"""Mail of the sandbox."""

import base64
import html
import re
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

Fields = dict[str, Any]
Person = tuple[str, str]

_FLAGS = ("seen", "flagged", "answered", "deleted", "draft", "forwarded", "hasAttachments", "important")
_LINK = re.compile(r"https?://[^\s<>\"']+")


@dataclass(slots=True)
class StoredMessage:
    """One message; `body` is HTML or plain text, None where it cannot be decrypted."""

    id: int
    mailbox_id: int
    subject: str
    sender: Person
    sent_at: int
    body: str | None
    is_html: bool = False
    to: list[Person] = field(default_factory=list[Person])
    cc: list[Person] = field(default_factory=list[Person])
    reply_to: list[Person] = field(default_factory=list[Person])
    flags: set[str] = field(default_factory=set[str])
    attachments: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    phishing: bool = False
    signature_valid: bool | None = None

    def stub(self) -> Fields:
        """Write the message as `Db/Message` does in a list."""
        return {
            "databaseId": self.id,
            "uid": self.id,
            "tags": [],
            **self._shared(),
            "mailboxId": self.mailbox_id,
            "inReplyTo": None,
            "references": [],
            "threadRootId": f"<{self.id}@example.test>",
            "imipMessage": False,
            "previewText": re.sub(r"<[^>]*>", "", self.body or "")[:255],
            "summary": None,
            "encrypted": self.body is None,
            "mentionsMe": False,
            "avatar": None,
            "fetchAvatarFromClient": True,
            "attachments": [
                {
                    "id": str(place),
                    "fileName": name,
                    "downloadUrl": f"/apps/mail/api/messages/{self.id}/attachment/{place}",
                    "mime": mime,
                }
                for place, (name, mime, _) in enumerate(self.attachments, 2)
            ],
        }

    def whole(self) -> Fields:
        """Write the message with its text, as the API does."""
        files = [
            {
                "id": str(place),
                "messageId": self.id,
                "fileName": name,
                "mime": mime,
                "size": size,
                "cid": None,
                "disposition": "attachment",
            }
            for place, (name, mime, size) in enumerate(self.attachments, 2)
        ]
        found: Fields = {
            "id": self.id,
            "uid": self.id,
            **self._shared(),
            "replyTo": _people(self.reply_to or [self.sender]),
            "hasHtmlBody": self.is_html,
            "phishingDetails": {"checks": [], "warning": self.phishing},
            "smime": {
                "isSigned": self.signature_valid is not None,
                "signatureIsValid": self.signature_valid,
                "isEncrypted": self.body is None,
            },
            "scheduling": [],
            "dispositionNotificationTo": "",
            "hasDkimSignature": False,
            "unsubscribeUrl": None,
            "isOneClickUnsubscribe": False,
            "unsubscribeMailto": None,
            "isPgpMimeEncrypted": False,
            "attachments": files,
            "inlineAttachments": [],
            "isSenderTrusted": False,
        }
        if self.is_html:
            return found if self.body is None else found | {"body": self.body}
        # The last mark is the one that counts; those before it stay, with another line ending.
        *parts, last = _linked(self.body or "").split("-- \n")
        found["signature"] = last if parts else None
        return found if self.body is None else found | {"body": "-- \r\n".join(parts or [last])}

    def _shared(self) -> Fields:
        return {
            "messageId": f"<{self.id}@example.test>",
            "subject": self.subject,
            "dateInt": self.sent_at,
            "flags": {flag: flag in self.flags for flag in _FLAGS},
            "from": _people([self.sender]),
            "to": _people(self.to),
            "cc": _people(self.cc),
            "bcc": [],
        }


@dataclass(slots=True)
class StoredMailbox:
    """A mailbox; Mail lists what is in it once a user opened it there."""

    id: int
    account_id: int
    name: str
    role: str | None = None
    opened: bool = True

    def document(self, unread: int) -> Fields:
        """Write the mailbox as `Db/Mailbox` does."""
        return {
            "databaseId": self.id,
            "id": base64.b64encode(self.name.encode()).decode(),
            "name": self.name,
            "accountId": self.account_id,
            "displayName": self.name,
            "attributes": ["\\subscribed", *([f"\\{self.role}"] if self.role not in {None, "inbox"} else [])],
            "delimiter": ".",
            "specialUse": [self.role] if self.role else [],
            "specialRole": self.role or 0,
            "mailboxes": [],
            "syncInBackground": self.role == "inbox",
            "unread": unread,
            "myAcls": None,
            "shared": False,
            "cacheBuster": md5(self.name.encode(), usedforsecurity=False).hexdigest(),
        }


@dataclass(slots=True)
class StoredAccount:
    """An account at a mail server."""

    id: int
    owner: str
    email: str
    aliases: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class MailStore:
    """The mail of all users."""

    accounts: list[StoredAccount] = field(default_factory=list[StoredAccount])
    mailboxes: list[StoredMailbox] = field(default_factory=list[StoredMailbox])
    messages: list[StoredMessage] = field(default_factory=list[StoredMessage])
    down: bool = False

    def add_account(self, owner: str, email: str, *aliases: str) -> StoredAccount:
        """Set up an account."""
        made = StoredAccount(len(self.accounts) + 1, owner, email, list(aliases))
        self.accounts.append(made)
        return made

    def add_mailbox(
        self, account: StoredAccount, name: str, role: str | None = None, *, opened: bool = True
    ) -> StoredMailbox:
        """Make a mailbox."""
        made = StoredMailbox(len(self.mailboxes) + 1, account.id, name, role, opened)
        self.mailboxes.append(made)
        return made

    def add(
        self,
        mailbox: StoredMailbox,
        subject: str,
        sender: Person,
        sent_at: int,
        body: str | None,
        **more: Any,  # noqa: ANN401 - fields of the message
    ) -> StoredMessage:
        """Add a message."""
        number = len(self.messages) + 1
        made = StoredMessage(number, mailbox.id, subject, sender, sent_at, body, **more)
        self.messages.append(made)
        return made


def _people(found: list[Person]) -> list[Fields]:
    return [{"label": label, "email": email} for label, email in found]


def _linked(text: str) -> str:
    """Write a plain text as HTML, as Mail does before it answers one."""
    link = '<a href="{0}" rel="noreferrer noopener" target="_blank">{0}</a>'
    return _LINK.sub(lambda found: link.format(found[0]), html.escape(text, quote=False))
