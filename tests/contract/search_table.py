"""How the recordings of the unified search are replayed."""

from tests.contract.replay import Step, Table, case
from tests.contract.steps import file
from tests.contract.tags_steps import versioned_file

_FILE = versioned_file("271", ("v1", 1795813521))


def _files(*names: tuple[str, int]) -> tuple[Step, ...]:
    return tuple(file(f"Rec/{name}", headers={"X-OC-MTime": str(moment)}) for name, moment in names)


#: With many real file ids, only the responses of a sandbox can be compared by value.
_IDS = "an id, of which each page names two"
_TEXTS = (
    *_files(("empty.txt", 1795813434), ("etag.txt", 1795813500), ("trash me #1.txt", 1795813519)),
    _FILE,
)

UNIFIED_SEARCH: Table = {
    "unified_search/empty_term": case(),
    "unified_search/files": case(_FILE, ignore=("icon",)),
    "unified_search/files_page1": case(
        *_TEXTS, sandbox_only=_IDS, ignore=("icon", "fileId", "resourceUrl", "thumbnailUrl")
    ),
    "unified_search/files_page2": case(
        *_TEXTS, sandbox_only=_IDS, ignore=("icon", "fileId", "resourceUrl", "thumbnailUrl")
    ),
    "unified_search/unknown_provider": case(),
}

NOT_REPLAYED = {
    "unified_search/providers": "lists the apps that are installed there, and their icons",
}
