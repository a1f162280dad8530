from nextcloud_mcp_server.web.connections import ConnectionLimits, server_config


def test_the_server_believes_no_header_writes_no_address_down_and_speaks_no_web_sockets() -> None:
    config = server_config(None, ConnectionLimits())

    assert (config.proxy_headers, config.access_log, config.server_header) == (False, False, False)
    assert (config.ws, config.log_config) == ("none", None)
