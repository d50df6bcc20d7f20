# The command line of fedpace in a container. Not built here: no Docker engine was at hand.
#   docker build -t fedpace .
#   docker run --rm -v "$PWD:/data" fedpace run fedavg --task digits --rounds 20 --plot fedavg.png
#   docker run --rm -v "$PWD/study:/data/study" -p 7443:7443 fedpace serve study      listen = "0.0.0.0:7443" in run.toml
FROM python:3.11-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY constraints.txt /wheels/
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir -c /wheels/constraints.txt "$(ls /wheels/*.whl)[deploy,privacy]" && rm -r /wheels
ENV OMP_NUM_THREADS=1 FEDPACE_HOME=/data/.fedpace
RUN useradd --create-home fedpace && mkdir /data && chown fedpace /data
USER fedpace
WORKDIR /data
ENTRYPOINT ["fedpace"]
CMD ["--help"]
