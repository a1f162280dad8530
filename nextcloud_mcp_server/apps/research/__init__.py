"""Research in notes and files, with questions in place of paths."""
