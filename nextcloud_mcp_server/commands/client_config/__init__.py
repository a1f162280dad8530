"""The entry of this server in the configuration of each chat client: its text, and where it goes."""
