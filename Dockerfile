# The server for one person, over HTTP. See docker-compose.yml for how it is meant to be run.
FROM python:3.13-slim

WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY alembic alembic
COPY nextcloud_mcp_server nextcloud_mcp_server
# The lock's versions without its development tools: a constraint installs only what is asked for.
RUN sed -e 's/ *\\$//' -e '/^ *--hash/d' requirements.lock > constraints.txt \
 && pip install --no-cache-dir --constraint constraints.txt . \
 && rm -r /src/* \
 && useradd --create-home --uid 10001 server \
 && install -d -m 0700 -o server -g server /data

USER server
WORKDIR /data
ENV DATA_DIR=/data
VOLUME /data
EXPOSE 8765
# All addresses of the container; what reaches it is decided where its port is published.
CMD ["nextcloud-mcp-server", "serve", "--transport", "http", "--host", "0.0.0.0"]
