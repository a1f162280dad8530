"""Notes: the app for notes in Markdown."""
