from ipaddress import ip_network

import pytest

from nextcloud_mcp_server.auth.builtin.public_address import is_public


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "2a00:1450:4001::1", "64:ff9b::8.8.8.8"]
)
def test_hosts_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.2.1",
        "192.168.1.1",
        "192.88.99.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::8.8.8.8",
        "::ffff:10.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:0a00:0001::1",
        "2002:0808:0808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:2800:220:1::1%eth0",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "localhost",
        "2130706433",
        "",
    ],
)
def test_nothing_else_is(address: str) -> None:
    assert not is_public(address)


#: The registries of special-purpose addresses at IANA (iana-ipv4-special-registry and iana-ipv6-special-registry,
#: each entry, also those called globally reachable), and the multicast blocks. 64:ff9b::/96 is read as IPv4.
IANA = (
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.9/32",
    "192.0.0.10/32",
    "192.0.0.170/31",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::1/128",
    "::/128",
    "::ffff:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
)


@pytest.mark.parametrize("block", IANA)
def test_no_address_of_a_special_purpose_block_is_public(block: str) -> None:
    network = ip_network(block)

    inside = {network[0], network[network.num_addresses // 2], network[-1]}

    assert [str(address) for address in inside if is_public(str(address))] == []


@pytest.mark.parametrize(
    "neighbour",
    [
        "1.0.0.0",
        "9.255.255.255",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.31.197.1",
        "198.17.255.255",
        "223.255.255.255",
        "2001:200::1",
        "2003::1",
        "2620:4f:8001::1",
        "3ffe::1",
    ],
)
def test_the_addresses_beside_a_special_purpose_block_are_public(neighbour: str) -> None:
    assert is_public(neighbour)


def test_what_python_calls_private_is_never_public() -> None:
    corners = [ip_network(block)[-1] for block in IANA]

    assert [str(one) for one in corners if not one.is_global and is_public(str(one))] == []
