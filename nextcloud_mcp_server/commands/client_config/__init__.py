"""The entry of this server in the settings of each chat client: its text, and its place."""
