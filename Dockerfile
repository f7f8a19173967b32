# The wheel is built in one stage and installed in another: no source and no compiler in what runs.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
RUN useradd --system --home-dir /var/lib/respool --create-home respool
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir --no-index --find-links /wheels respool && rm -r /wheels
USER respool
WORKDIR /var/lib/respool
ENV RESPOOL_HOST=0.0.0.0 RESPOOL_PORT=8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
ENTRYPOINT ["respool"]
CMD ["serve"]
