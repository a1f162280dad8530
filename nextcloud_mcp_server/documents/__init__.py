"""Extracts text from documents, in a separate process; imports only the errors of this program."""
