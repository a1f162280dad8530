"""Mail: accounts, mailboxes and messages."""
