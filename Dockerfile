# The server over HTTP, for one person (docker-compose.yml) or for many (docker-compose.existing.yml and others). No secret is
# part of the image: the settings come with the environment, best as files (`…_FILE`).
FROM python:3.13-slim AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# pip takes only files whose hashes are locked, those of the build backend included.
COPY requirements-build.lock requirements-server.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements-build.lock \
 && python -m venv /opt/server \
 && /opt/server/bin/pip install --require-hashes -r requirements-server.lock
COPY pyproject.toml README.md LICENSE ./
COPY alembic alembic
COPY nextcloud_mcp_server nextcloud_mcp_server
# `--no-index`: fails when the lock lacks a dependency of the wheel, instead of downloading it.
RUN /opt/build/bin/python -m hatchling build -t wheel -d /wheel \
 && /opt/server/bin/pip install --no-index "nextcloud-mcp-server[postgres,metrics,tracing] @ file://$(echo /wheel/*.whl)"

FROM python:3.13-slim
COPY --from=build /opt/server /opt/server
RUN useradd --no-create-home --home-dir /data --uid 10001 server \
 && install -d -m 0700 -o server -g server /data /client /secrets \
 && install -d -m 0755 -o server -g server /database
USER server
WORKDIR /data
ENV PATH=/opt/server/bin:$PATH DATA_DIR=/data PYTHONDONTWRITEBYTECODE=1
# A new volume takes over the owner of the folder that it is mounted at: so the other three are for the compose files.
# The database, unless DATABASE_URL names another one, and what personal mode makes for itself: its key and its secret.
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", \
  "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('NEXTCLOUD_MCP_PORT', '8765') + '/readyz', timeout=4)"]
# All addresses of the container; what reaches it is decided where its port is published.
CMD ["nextcloud-mcp-server", "serve", "--transport", "http", "--host", "0.0.0.0"]
