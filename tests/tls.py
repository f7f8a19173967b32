"""TLS on loopback: certificates of an authority of the test's own, and a TLS end before a server that speaks none."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="no openssl to make certificates with")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificates:
    """Files: the authority, a server at 127.0.0.1, a client."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def query(self) -> str:
        """What a client's URL says of them."""
        named = {"ca_certs": "ca.pem", "certfile": "client.pem", "keyfile": "client.key"}
        return "&".join(f"ssl_{option}={self.path(name)}" for option, name in named.items())

    @property
    def options(self) -> tuple[str, ...]:
        """For a server that speaks TLS itself, to its like too, and asks clients for their certificate."""
        return (
            *(
                "--tls-cert-file",
                self.path("server.pem"),
                "--tls-key-file",
                self.path("server.key"),
            ),
            *("--tls-ca-cert-file", self.path("ca.pem"), "--tls-auth-clients", "yes"),
            *("--tls-replication", "yes", "--tls-cluster", "yes"),
        )

    @property
    def settings(self) -> dict[str, object]:
        """For a test's own questions."""
        return {
            "ssl": True,
            "ssl_ca_certs": self.path("ca.pem"),
            "ssl_certfile": self.path("client.pem"),
            "ssl_keyfile": self.path("client.key"),
        }


def certificates(folder: Path) -> Certificates:
    """Make them."""
    made = Certificates(folder)
    folder.mkdir(exist_ok=True)
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
    _openssl(
        *("req", "-x509", *KEY, "-days", "2", "-subj", "/CN=authority"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", made.path("ca.key"), "-out", made.path("ca.pem")),
    )
    for name in ("server", "client"):
        _openssl(
            *("req", *KEY, "-subj", f"/CN={name}", "-keyout", made.path(f"{name}.key")),
            *("-out", made.path(f"{name}.csr")),
        )
        _openssl(
            *("x509", "-req", "-in", made.path(f"{name}.csr"), "-days", "2", "-CAcreateserial"),
            *("-CA", made.path("ca.pem"), "-CAkey", made.path("ca.key")),
            *("-extfile", str(extensions), "-out", made.path(f"{name}.pem")),
        )
    return made


def _openssl(*words: str) -> None:
    subprocess.run([str(OPENSSL), *words], check=True, capture_output=True)


@asynccontextmanager
async def encrypted(port: int, made: Certificates, *, clients: bool = True) -> AsyncIterator[int]:
    """A TLS end before a server on loopback; its port. `clients` must show a certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made.path("ca.pem"))
    context.load_cert_chain(made.path("server.pem"), made.path("server.key"))
    context.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, forth))
                group.create_task(_copy(back, writer))
        except* (OSError, EOFError):
            pass
        finally:
            tasks.discard(task)
            forth.close()
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()
    raise EOFError
