"""A small Nextcloud in process, for the demo and the tests. Imports errors only."""
