"""Which addresses are out there, and which are ours, our neighbours' or the cloud's own."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_GLOBAL_UNICAST = IPv6Network("2000::/3")
#: RFC 6052 §2.1: how an IPv6-only host reaches an IPv4 address, which is what counts.
_NAT64 = IPv6Network("64:ff9b::/96")
#: 6to4 (RFC 3056) and Teredo (RFC 4380), which lead to an IPv4 address of the sender's choice; examples (RFC 9637).
_NOT_V6 = (IPv6Network("2002::/16"), IPv6Network("2001::/32"), IPv6Network("3fff::/20"))
#: The relays of 6to4, and the host of a machine in Azure, routed like any other address.
_NOT_V4 = (IPv4Network("192.88.99.0/24"), IPv4Network("168.63.129.16/32"))


def is_public(address: str) -> bool:
    """Tell whether an address is a host on the internet, and no detour to another one.

    Python's `is_global` alone calls multicast, 6to4, site-local and NAT64 addresses global
    in some of its versions; whoever may choose an address could reach our own network with them.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    if parsed in _NAT64:
        return _is_public_v4(IPv4Address(int(parsed) & 0xFFFF_FFFF))
    return _is_public_v6(parsed)


def _is_public_v4(address: IPv4Address) -> bool:
    return (
        address.is_global and not address.is_multicast and not any(address in network for network in _NOT_V4)
    )


def _is_public_v6(address: IPv6Address) -> bool:
    # IPv4-mapped and -compatible ones, link-local ones and all multicast are outside 2000::/3.
    return (
        address in _GLOBAL_UNICAST
        and address.is_global
        and address.scope_id is None
        and not any(address in network for network in _NOT_V6)
    )
