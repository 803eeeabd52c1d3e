"""Settings: everything a server is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from irene.errors import UsageError

__all__ = ["Limits", "Mail", "Settings", "is_loopback"]

LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


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
        requests_per_s: Requests per second of one client, in the long run; 0: any.
        burst: Requests that one client may send at once.
        queue: Computations that may wait for a process.
        jobs: Jobs that may wait.
        seconds: Time of one computation, s.
        job_seconds: Time of one job, s.
        memory_bytes: Memory that one computation may take on top of the libraries'.
        streams: Event streams that are open at a time.
        connections: Connections that are open at a time.
        headers_s: Time for a client to send the head of a request, s.
        body_s: Time for a client to send a body, s.
        stored_bytes: Answers that are kept; the longest unused go first.
        memory_answers_bytes: Answers that one process keeps in memory.
    """

    body_bytes: int = 1_000_000
    upload_bytes: int = 20_000_000
    query_bytes: int = 8_000
    requests_per_s: float = 0.0
    burst: int = 200
    queue: int = 64
    jobs: int = 100
    seconds: float = 60.0
    job_seconds: float = 900.0
    memory_bytes: int = 4_000_000_000
    streams: int = 2_000
    connections: int = 5_000
    headers_s: float = 20.0
    body_s: float = 60.0
    stored_bytes: int = 4_000_000_000
    memory_answers_bytes: int = 64_000_000


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
        token: What clients must show for jobs and uploads; None: nothing.
        read_only: Whether jobs and uploads are refused.
        hub: Whether models of the Hugging Face hub may be asked for.
        measuring: Whether jobs may measure on this machine.
        public_url: How clients reach the server, for links in messages.
        mail: How to send e-mail; None: never.
        webhooks: Whether a job may ask for a call when it is ready.
        private_webhooks: Whether such a call may go to a private address.
        access_log: Whether every request is written to the log.
        limits: The largest that a client may ask for.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    computing: int = 2
    store_url: str | None = None
    token: str | None = field(default=None, repr=False)
    read_only: bool = False
    hub: bool = False
    measuring: bool = True
    public_url: str | None = None
    mail: Mail | None = None
    webhooks: bool = True
    private_webhooks: bool = False
    access_log: bool = True
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        """Refuse what cannot be, and what would be open to everybody."""
        for name, least in (("workers", 1), ("computing", 1), ("port", 0)):
            if getattr(self, name) < least:
                raise UsageError(
                    f"{name} must be at least {least}, got {getattr(self, name)}"
                )
        if self.port > 65_535:
            raise UsageError(f"a port is at most 65535, got {self.port}")
        if self.token is not None and len(self.token) < 8:
            raise UsageError("a token must have at least 8 characters")
        if not (self.is_local or self.read_only or self.token):
            raise UsageError(
                f"{self.host} can be reached from elsewhere: give --token, which jobs "
                "and uploads then need, or --read-only"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the store."""
        return self.store_url or f"sqlite:///{self.data_dir / 'irene.sqlite'}"
