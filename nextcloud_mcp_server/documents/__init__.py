"""Turns documents into text, in a process of its own; imports nothing of this program but its errors."""
