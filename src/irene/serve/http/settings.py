"""Settings: everything a server is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from irene.errors import UsageError

API = "/api/v1"
LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which several HTTP processes keep their numbers together."""
OWN = ("127.0.0.1", "::1")
"""Where this machine's own user asks from."""
USUAL_RATE = 50.0
"""Requests per second of one client, in the long run."""


@lru_cache(100)
def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, and nobody else's."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest that a client may ask for.

    Attributes:
        body_bytes: Body of a request that is no upload.
        upload_bytes: An uploaded file, and what it unpacks to.
        query_bytes: Path and query of a request.
        requests_per_s: Requests per second of one client, in the long run; 0: any;
            None: `USUAL_RATE`, and any for this machine's own user.
        burst: Requests that one client may send at once.
        queue: Computations that may wait for a process.
        client_computations: Those of one client.
        waiting_s: Time that one may wait, s.
        boards: Leaderboards that are being filled at a time.
        client_boards: Those of one client.
        jobs: Jobs that may wait or run.
        client_jobs: Those of one client.
        seconds: Time of one computation, s.
        job_seconds: Time of one job, s.
        memory_bytes: Memory that a computing process or a prediction's may take.
        streams: Event streams that are open at a time.
        client_streams: Those of one client.
        connections: Connections that are open at a time.
        client_connections: Those of one address, unless it is a proxy's.
        headers_s: Time for a client to send the head of a request, s.
        body_s: Time for a client to send a body, s.
        send_s: Time for a client to take a part of an answer, s.
        stored_bytes: Answers that are kept; the longest unused go first.
        uploads_bytes: Uploads that are kept; the longest unused go first.
        energies_bytes: Energies of leaderboards that are kept; the oldest go first.
        memory_answers_bytes: Answers that one process keeps in memory.
    """

    body_bytes: int = 1_000_000
    upload_bytes: int = 20_000_000
    query_bytes: int = 8_000
    requests_per_s: float | None = None
    burst: int = 200
    queue: int = 64
    client_computations: int = 16
    waiting_s: float = 45.0
    boards: int = 32
    client_boards: int = 2
    jobs: int = 100
    client_jobs: int = 20
    seconds: float = 60.0
    job_seconds: float = 900.0
    memory_bytes: int = 4_000_000_000
    streams: int = 2_000
    client_streams: int = 100
    connections: int = 5_000
    client_connections: int = 250
    headers_s: float = 20.0
    body_s: float = 60.0
    send_s: float = 60.0
    stored_bytes: int = 4_000_000_000
    uploads_bytes: int = 4_000_000_000
    energies_bytes: int = 200_000_000
    memory_answers_bytes: int = 16_000_000


@dataclass(frozen=True, slots=True)
class Mail:
    """How to send e-mail when a job is ready.

    Attributes:
        host: Name of the SMTP server.
        port: Its port.
        sender: Address that mails come from.
        user: To log in with, "" for no login.
        password: To log in with.
        starttls: Whether the line is encrypted before anything is sent.
    """

    host: str
    port: int = 25
    sender: str = "irene@localhost"
    user: str = ""
    password: str = field(default="", repr=False)
    starttls: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a server is told when it starts.

    Attributes:
        data_dir: Folder of everything it keeps.
        host: Address to listen on.
        port: Port to listen on.
        workers: HTTP processes.
        computing: Processes that trace and predict, for each HTTP process.
        store_url: SQLAlchemy URL of the store; None: a SQLite file in `data_dir`.
        token: What clients must show for jobs and uploads, beside the tokens of
            `tokens_path`; None: nothing.
        private: Whether they must show one to read, too.
        read_only: Whether jobs and uploads are refused.
        hub: Whether models of the Hugging Face hub may be asked for.
        measuring: Whether jobs may measure on this machine.
        public_url: How clients reach the server, for links in messages.
        allowed_hosts: Names, beside that of `public_url`, under which requests may
            come; an address is always one.
        proxies: Addresses whose `X-Forwarded-For` says who the client is.
        mail: How to send e-mail; None: never.
        webhooks: Whether a job may ask for a call when it is ready.
        private_webhooks: Whether such a call may go to a private address.
        webhook_secret: What calls are signed with if a job brings no secret.
        retain_s: Time after which what nobody has used is deleted, s; None: never.
        access_log: Whether every request is written to the log.
        json_log: Whether the log has a JSON document in each line.
        otlp_url: Collector that traces go to; None: none.
        limits: The largest that a client may ask for.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    computing: int = 2
    store_url: str | None = None
    token: str | None = field(default=None, repr=False)
    private: bool = False
    read_only: bool = False
    hub: bool = False
    measuring: bool = True
    public_url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    mail: Mail | None = None
    webhooks: bool = True
    private_webhooks: bool = False
    webhook_secret: str | None = field(default=None, repr=False)
    retain_s: float | None = None
    access_log: bool = True
    json_log: bool = False
    otlp_url: str | None = None
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        """Refuse what cannot be, and what would be open to everybody."""
        for name, least in (("workers", 1), ("computing", 1), ("port", 0)):
            if getattr(self, name) < least:
                raise UsageError(
                    f"{name} must be at least {least}, got {getattr(self, name)}"
                )
        for each in self.proxies:
            try:
                ipaddress.ip_network(each)
            except ValueError as error:
                raise UsageError(
                    f"a proxy is an address or a network: {error}"
                ) from error
        if self.port > 65_535:
            raise UsageError(f"a port is at most 65535, got {self.port}")
        if self.token is not None and len(self.token) < 8:
            raise UsageError("a token must have at least 8 characters")
        public = urlsplit(self.public_url or "").hostname or self.host
        is_reached = not (self.is_local and is_loopback(public))
        if is_reached and not (self.read_only or self.needs_token):
            raise UsageError(
                f"{self.host if is_loopback(public) else public} can be reached from "
                "elsewhere: give --token, which jobs and uploads then need (or make "
                "some with `irene token add`), or --read-only"
            )
        if self.private and not self.needs_token:
            raise UsageError("--private needs --token, or `irene token add`")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def needs_token(self) -> bool:
        """Whether jobs and uploads need a token."""
        return self.token is not None or self.tokens_path.exists()

    @property
    def tokens_path(self) -> Path:
        """The file of the tokens."""
        return self.data_dir / "tokens.json"

    def is_own(self, address: str) -> bool:
        """Whether this is the user of this machine, who shares it with nobody.

        Args:
            address: Of the client; behind a proxy that which the proxy names.
        """
        return address in OWN and self.is_local

    def is_proxy(self, address: str) -> bool:
        """Whether an address is one of `proxies`, or in a network of them."""
        try:
            found = ipaddress.ip_address(address)
            return any(found in ipaddress.ip_network(each) for each in self.proxies)
        except ValueError:
            return False

    @property
    def hosts(self) -> frozenset[str]:
        """Names under which requests may come; none: under any."""
        public = urlsplit(self.public_url or "").hostname
        told = {*self.allowed_hosts, *([public] if public else [])}
        if self.is_local:
            told |= {*LOCAL_NAMES, self.host}
        elif told:
            told |= {*LOCAL_NAMES}
        return frozenset(name.lower() for name in told)

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the store."""
        return self.store_url or f"sqlite:///{self.data_dir / 'irene.sqlite'}"
