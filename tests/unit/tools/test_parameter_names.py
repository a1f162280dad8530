from urllib.parse import unquote

import pytest

from nextcloud_mcp_server.tools.parameter_names import read

#: A query, and the names of the parameters in it: PHP 8.2 parse_str (8.2.36, Debian).
PHP: list[tuple[str, list[str]]] = [
    ("client_id=1", ["client_id"]),
    ("client.id=1", ["client_id"]),
    ("client%20id=1", ["client_id"]),
    ("client id=1", ["client_id"]),
    ("client+id=1", ["client_id"]),
    ("client[id=1", ["client_id"]),
    ("client%5Bid=1", ["client_id"]),
    ("client%2Eid=1", ["client_id"]),
    ("client%2eid=1", ["client_id"]),
    (" client_id=1", ["client_id"]),
    ("%20client_id=1", ["client_id"]),
    ("+client_id=1", ["client_id"]),
    ("++client.id=1", ["client_id"]),
    ("client_id[]=1", ["client_id"]),
    ("client_id[x]=1", ["client_id"]),
    ("client_id[x=1", ["client_id_x"]),
    ("%63lient_id=1", ["client_id"]),
    ("%63%6C%69ent%5fid=1", ["client_id"]),
    ("%63%6C%69ent%5Fid=1", ["client_id"]),
    ("client_id%00=1", ["client_id"]),
    ("client_id%00x=1", ["client_id"]),
    ("client_id\x00x=1", ["client_id"]),
    ("Client_Id=1", ["Client_Id"]),
    ("CLIENT_ID=1", ["CLIENT_ID"]),
    ("client_id =1", ["client_id_"]),
    ("client_id%20=1", ["client_id_"]),
    ("client-id=1", ["client-id"]),
    ("client_id;x=1", ["client_id;x"]),
    ("a=1;client_id=2", ["a"]),
    ("a=1;client.id=2", ["a"]),
    ("client__id=1", ["client__id"]),
    ("client..id=1", ["client__id"]),
    ("client[i.d=1", ["client_i_d"]),
    ("[client_id]=1", []),
    ("[client_id=1", []),
    ("_client_id=1", ["_client_id"]),
    ("%09client_id=1", ["\tclient_id"]),
    ("%0aclient_id=1", ["\nclient_id"]),
    ("\tclient_id=1", ["\tclient_id"]),
    ("client_id%09=1", ["client_id\t"]),
    ("client%09id=1", ["client\tid"]),
    ("client%C2%A0id=1", ["client\xa0id"]),
    ("client%252eid=1", ["client%2eid"]),
    ("=client_id", []),
    ("user.code=A", ["user_code"]),
    ("user code=A", ["user_code"]),
    ("user+code=A", ["user_code"]),
    ("user[code=A", ["user_code"]),
    ("user%5bcode=A", ["user_code"]),
    ("response.type=code", ["response_type"]),
    ("response type=code", ["response_type"]),
    ("response[type=code", ["response_type"]),
    ("request.uri=u", ["request_uri"]),
    ("request+uri=u", ["request_uri"]),
    ("client%u005fid=1", ["client%u005fid"]),
    ("client%5f%69%64=1", ["client_id"]),
    ("client%ZZid=1", ["client%ZZid"]),
    ("client_id%5B%5D=1", ["client_id"]),
    ("client_id%5bx%5d%5by%5d=1", ["client_id"]),
    ("client.id[a.b]=1", ["client_id"]),
]
ASKED = {"client_id", "user_code", "response_type", "request_uri"}


@pytest.mark.parametrize(("query", "names"), PHP)
def test_every_name_that_php_reads_is_found(query: str, names: list[str]) -> None:
    assert ASKED & set(names) <= read(f"?{unquote(query)}")


@pytest.mark.parametrize(
    "query",
    [
        # qs 6 of Node: an outermost bracket is the name. Rack 2: a semicolon, spaces after a separator.
        *("[client_id]=1", "client_id[0]=1", "a=1;client_id=2", "a=1& client_id=2", "a=1; client_id=2"),
        # ASP.NET: letters in any case, and its own wide escapes.
        *("Client_ID=1", "CLIENT_ID=1", "client%u005Fid=1", "%u0063lient_id=1"),
        "a=1#client_id=2",
    ],
)
def test_every_name_that_other_servers_and_scripts_read_is_found(query: str) -> None:
    assert "client_id" in read(f"https://id.example.org/sso?{query}")


@pytest.mark.parametrize(
    "link",
    [
        *(
            "client_id=1",
            "/client_id=1",
            "?client_id",
            "?client_id&b=1",
            "?a=client_id=1",
            "?client-id=1",
            "?=client_id",
        ),
        *("?=client_id", "?client__id=1", "?client_idx=1", "?xclient_id=1", "?clientid=1"),
    ],
)
def test_other_names_are_not_taken_for_it(link: str) -> None:
    assert "client_id" not in read(link)
