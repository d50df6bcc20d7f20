# The command line of fedpace in a container. Not built here: no Docker engine was at hand.
#   docker build -t fedpace .
#   docker run --rm -v "$PWD:/work" fedpace run fedavg --task digits --rounds 20 --plot fedavg.png
#   docker run --rm -v "$PWD/study:/work/study" -p 8443:8443 fedpace serve study
FROM python:3.11-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY constraints.txt /tmp/
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(ls /wheels/*.whl)[deploy,privacy]" && rm -r /wheels /tmp/constraints.txt
ENV OMP_NUM_THREADS=1 FEDPACE_HOME=/work/.fedpace
RUN useradd --create-home fedpace && mkdir /work && chown fedpace /work
USER fedpace
WORKDIR /work
ENTRYPOINT ["fedpace"]
CMD ["--help"]
