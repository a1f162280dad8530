"""Tells public addresses from those of this host, its networks and the cloud provider."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

#: What IANA has allocated to hosts; all other IPv6 addresses mean this machine, its link or nothing at all.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
#: RFC 6052 §2.1: how an IPv6-only host reaches an IPv4 address; the IPv4 address is checked.
_NAT64 = IPv6Network("64:ff9b::/96")
#: The IANA IPv4 Special-Purpose Address Registry, with what it calls globally reachable: the anycast addresses of
#: 192.0.0.0/24, 192.88.99.0/24 and the AS112 and AMT networks are answered by the nearest box, not by a chosen host.
_SPECIAL_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        # Multicast (RFC 5771), and what is reserved, with the broadcast address.
        "224.0.0.0/4",
        "240.0.0.0/4",
        # In no registry: the host of a virtual machine in Azure, routed like any other address.
        "168.63.129.16/32",
    )
)
#: The IANA IPv6 Special-Purpose Address Registry, inside of global unicast: IETF protocol assignments with Teredo
#: (RFC 4380), 6to4 (RFC 3056), which lead to an IPv4 address of the sender's choice, AS112, and examples.
_SPECIAL_V6 = tuple(
    IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)


def is_public(address: str) -> bool:
    """Tell whether an address is a host on the internet, and no tunnel or translation to another address.

    Python's `is_global` differs between its versions: some call multicast, 6to4, site-local, NAT64 or
    192.0.0.0/24 global; an attacker who chooses an address could reach the internal network with them.
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
    return not any(address in network for network in _SPECIAL_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    # IPv4-mapped, IPv4-compatible, link-local and multicast addresses are outside 2000::/3.
    return (
        address in _GLOBAL_UNICAST
        and address.scope_id is None
        and not any(address in network for network in _SPECIAL_V6)
    )
