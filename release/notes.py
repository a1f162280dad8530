"""The notes of a release: its section of the changelog."""

import re


def notes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading.

    Raises:
        ValueError: There is none, or it is empty.
    """
    found = re.search(
        rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise ValueError(
            f"CHANGELOG.md has no section {version}: rename [Unreleased] to [{version}] - DATE, and begin a new one."
        )
    if not (text := found[1].strip()):
        raise ValueError(f"The section {version} of CHANGELOG.md is empty.")
    return f"{text}\n"
