# Stet as a container: no key in the image, no network at start, not root, one writable volume.
#
#   docker build -t stet .
#   docker run --rm -p 127.0.0.1:8787:8787 -v stet-state:/var/lib/stet stet
#   docker run ... -v "$PWD/mine:/etc/stet:ro" stet --policy /etc/stet/policy.yaml      with a policy of your own
#
# The base is pinned by its version tag. A digest is tighter and has to come from the registry you trust:
#   docker buildx imagetools inspect python:3.13.7-slim-bookworm
# then build with --build-arg BASE=python:3.13.7-slim-bookworm@sha256:...
ARG BASE=python:3.13.7-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/stet
# What Stet needs, each file checked against its hash, in a layer that changes only with the lock.
COPY requirements.lock /src/
RUN /opt/stet/bin/pip install --require-hashes --only-binary=:all: -r /src/requirements.lock
COPY pyproject.toml README.md LICENSE /src/
COPY proxy /src/proxy
COPY config /src/config
RUN /opt/stet/bin/pip install --no-deps /src \
    && /opt/stet/bin/pip uninstall -y pip

FROM ${BASE}
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/stet --shell /usr/sbin/nologin stet \
    && install -d -o stet -g stet -m 0700 /var/lib/stet \
    && install -d -m 0755 /etc/stet
COPY --from=build /opt/stet /opt/stet
ENV PATH=/opt/stet/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/stet
VOLUME ["/var/lib/stet"]
# 8787 is for agents; 8788, the admin listener, answers inside the container only unless it is told otherwise.
EXPOSE 8787 8788
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=4s --start-period=5s --retries=3 \
    CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8788, timeout=3); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
# What `docker run` gets behind the image's name follows these options and wins over them.
ENTRYPOINT ["stet", "serve", "--listen", "0.0.0.0:8787", "--admin", "127.0.0.1:8788", "--state", "/var/lib/stet", "--log", "json"]
