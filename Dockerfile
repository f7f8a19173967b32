# The wheel is built in one stage and installed in another: no source and no compiler in what runs.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels '.[otel]'

FROM python:3.13-slim
# By number: Kubernetes cannot see whether a name is root's. The folder is for an embedded store; with a Redis nothing is
# written anywhere.
RUN groupadd --system --gid 10001 respool \
  && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/respool --create-home respool
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir --no-index --find-links /wheels 'respool[otel]' && rm -r /wheels
USER 10001:10001
WORKDIR /var/lib/respool
ENV RESPOOL_HOST=0.0.0.0 RESPOOL_PORT=8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
ENTRYPOINT ["respool"]
CMD ["serve"]
