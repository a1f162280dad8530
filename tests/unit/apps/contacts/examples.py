"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    person = {"book": "contacts", "contact_id": "contact-1.vcf"}
    return {
        "nc_contacts_search_contacts": {"book": "contacts"},
        "nc_contacts_get_contact": person,
        "nc_contacts_create_contact": {"name": "x"},
        "nc_contacts_update_contact": {**person, "etag": "e", "name": "x"},
        "nc_contacts_delete_contact": {**person, "etag": "e"},
    }


async def working(nc: Account, _: str, given: dict[str, Any]) -> dict[str, Any]:
    if "etag" not in given:
        return {}
    named = {name: given[name] for name in ("book", "contact_id")}
    return {"etag": (await call(nc, "nc_contacts_get_contact", **named)).etag}
