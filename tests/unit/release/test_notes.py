import pytest

from release.facts import ROOT
from release.notes import notes

CHANGELOG = """# Changes

## [Unreleased]

### Added

- New.

## [1.2.0] - 2026-11-30

### Fixed

- Old.

## [1.1.0] - 2026-10-01
"""


def test_the_notes_are_the_section_of_the_version() -> None:
    assert notes(CHANGELOG, "1.2.0") == "### Fixed\n\n- Old.\n"
    assert notes(CHANGELOG, "Unreleased") == "### Added\n\n- New.\n"


@pytest.mark.parametrize(
    ("version", "message"), [("1.1.0", "is empty"), ("2.0.0", "no section"), ("1.2", "no section")]
)
def test_a_version_without_notes_is_no_release(version: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        notes(CHANGELOG, version)


def test_the_changelog_of_this_project_is_read() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "\n- " in notes(text, "Unreleased")
