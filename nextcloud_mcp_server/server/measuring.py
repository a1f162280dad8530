"""Exports metrics and traces while a server runs, where the settings ask for them."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import anyio

from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.protocol.mcp_log import METHODS
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.telemetry import metrics

if TYPE_CHECKING:
    # The type only: SQLAlchemy is imported when the database is opened.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: Between two counts of the stored connections. Prometheus reads every 15 to 60 seconds.
COUNT_SECONDS: Final = 30.0
#: Names no package of an index: the one of this name there is another project.
MISSING_EXTRA: Final = (
    "METRICS_PORT needs a library that is not installed: install this program again with the extra 'metrics', as "
    "docs/operate/monitoring.md says (uv tool install 'nextcloud-mcp-server[metrics] @ git+ADDRESS'), or leave "
    "METRICS_PORT out."
)


def refuse_missing_library(settings: Settings) -> None:
    """Refuse settings that ask for metrics where the library for them is not installed.

    Raises:
        ConfigurationError: It says how to install it.
    """
    if settings.metrics_port is not None and find_spec("prometheus_client") is None:
        raise ConfigurationError(MISSING_EXTRA)


@contextmanager
def exported(settings: Settings) -> Generator[None]:
    """Serve the metrics and send the traces that the settings ask for, until the context ends.

    Raises:
        ConfigurationError: The port is taken, or a library is missing.
    """
    with _metrics(settings), _traces(settings):
        yield


@contextmanager
def _traces(settings: Settings) -> Generator[None]:
    if settings.otel_exporter_otlp_endpoint is None:
        yield
        return
    try:
        from nextcloud_mcp_server.telemetry import tracing  # noqa: PLC0415 - only where traces are asked for
    except ModuleNotFoundError:
        raise ConfigurationError(
            "OTEL_EXPORTER_OTLP_ENDPOINT needs the extra 'tracing': install nextcloud-mcp-server[tracing], or leave it "
            "out."
        ) from None
    tools = {tool for app in APPS for tool in app.actions}
    prompts = {prompt.name for app in APPS for prompt in app.prompts}
    with tracing.traced(settings.otel_exporter_otlp_endpoint, known=METHODS | tools | prompts):
        yield


@contextmanager
def _metrics(settings: Settings) -> Generator[None]:
    if settings.metrics_port is None:
        yield
        return
    refuse_missing_library(settings)
    from nextcloud_mcp_server.telemetry import prometheus  # noqa: PLC0415 - only where metrics are asked for

    with prometheus.serving(settings.metrics_host, settings.metrics_port) as port:
        logger.info("metrics for Prometheus: http://%s:%d/metrics", settings.metrics_host, port)
        yield


async def count_connections(database: "Database", *, seconds: float = COUNT_SECONDS) -> None:
    """Count the stored connections again and again, as long as the services are open."""
    while metrics.are_exported():
        try:
            connected, refused = await database.grants.count_connections()
        except StorageError as error:
            logger.debug("connections were not counted: %s", error)
        else:
            metrics.CONNECTIONS.set("connected", value=connected)
            metrics.CONNECTIONS.set("refused", value=refused)
        await anyio.sleep(seconds)
