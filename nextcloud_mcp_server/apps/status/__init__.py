"""The status of users."""
