"""Says that a job has ended: by e-mail, or by calling a webhook.

A message that cannot be sent is logged; the job is what it is all the same. A webhook
goes to the internet, not into the server's own network: its address is looked up once,
judged, and connected to as it was judged; a name that points elsewhere a moment later
changes nothing.
"""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import json
import logging
import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from irene.errors import UsageError
from irene.serve.http.settings import LOCAL_NAMES, Mail, Settings
from irene.serve.jobs.document import job_document
from irene.serve.store.job_records import JobRecord

logger = logging.getLogger(__name__)
TIMEOUT_S = 10.0
"""For one message from its beginning to its end, whatever the other side does, s."""
PAUSES_S = (1.0, 4.0, 15.0)
"""Time between two tries, s."""
LONGEST_ADDRESS = 254
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}")
LONGEST_URL = 2_000
PORTS = {"http": 80, "https": 443}


def check_notify(
    wishes: Mapping[str, str] | None, settings: Settings
) -> dict[str, str]:
    """Refuse what this server does not do."""
    kept = dict(wishes or {})
    if "email" in kept:
        _check_address(kept["email"], settings.mail)
    if "webhook" in kept:
        if not settings.webhooks:
            raise UsageError("this server calls no webhooks")
        check_webhook(kept["webhook"])
        _check_literal(kept["webhook"], settings)
    elif "secret" in kept:
        raise UsageError("a secret is for a webhook: give its URL, too")
    if not 16 <= len(kept.get("secret", "x" * 16)) <= 200:
        raise UsageError("the secret of a webhook has 16 to 200 characters")
    return kept


def _check_literal(url: str, settings: Settings) -> None:
    """Refuse at once what needs no name server to see: an address of a network."""
    host = urlsplit(url).hostname or ""
    name = host.removesuffix(".")
    is_inside = name in LOCAL_NAMES or name.endswith(".localhost")
    with suppress(OSError):  # also 0x7f.1 is an address, and is looked up nowhere
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
        is_inside = not _is_public(str(found[0][4][0]))
    if is_inside and not settings.private_webhooks:
        raise UsageError(
            f"{host} is no address of the internet: choose another webhook"
        )


def _check_address(address: str, mail: Mail | None) -> None:
    if mail is None:
        raise UsageError("this server sends no e-mail: follow the job by its link")
    if len(address) > LONGEST_ADDRESS or ADDRESS.fullmatch(address) is None:
        raise UsageError("that is no e-mail address")


def notify(
    record: JobRecord,
    settings: Settings,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Send what the job's owner asked for; never raises."""
    wishes: Mapping[str, Any] = record.request.get("notify") or {}
    if "email" in wishes and settings.mail is not None:
        mail, address = settings.mail, wishes["email"]
        message = _message(record, address, settings)
        _try_often("e-mail", lambda: _send_mail(mail, message), sleep)
    if "webhook" in wishes and settings.webhooks:
        url, body = wishes["webhook"], _body(record, settings)
        secret = wishes.get("secret") or settings.webhook_secret

        def call() -> None:
            target = find_target(url, settings.private_webhooks)
            _call(target, body, record.id, secret)

        _try_often("webhook", call, sleep)


def _try_often(
    what: str, send: Callable[[], None], sleep: Callable[[float], object]
) -> None:
    for pause_s in (*PAUSES_S, None):
        try:
            send()
        except UsageError as error:
            logger.warning("%s refused: %s", what, error)
            return
        except (OSError, smtplib.SMTPException, http.client.HTTPException) as error:
            logger.warning("%s not sent: %s", what, error)
            if pause_s is None:
                return
            sleep(pause_s)
        else:
            return


def _link(path: str, settings: Settings) -> str:
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    return f"{base.rstrip('/')}{path}"


def _message(record: JobRecord, address: str, settings: Settings) -> EmailMessage:
    assert settings.mail is not None
    model = str(record.request.get("model", ""))[:100]
    message = EmailMessage()
    message["Subject"] = f"irene: {record.kind} of {model} has {record.state}"
    message["From"] = settings.mail.sender
    message["To"] = address
    lines = [f"{record.kind} of {model}: {record.state}."]
    if record.error:
        lines.append(str(record.error.get("detail", "")))
    lines.append(_link(f"/jobs/{record.id}", settings))
    message.set_content("\n\n".join(lines) + "\n")
    return message


@contextmanager
def _in_time(line: Callable[[], socket.socket | None]) -> Iterator[None]:
    """Cut a connection when its time is over: a byte now and then does not prolong it.

    Args:
        line: Gives the connection, if there is one by then.
    """

    def cut() -> None:
        found = line()
        if found is not None:
            with suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)

    timer = threading.Timer(TIMEOUT_S, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _send_mail(mail: Mail, message: EmailMessage) -> None:
    server = smtplib.SMTP(timeout=TIMEOUT_S)
    with _in_time(lambda: server.sock), server:
        server.connect(mail.host, mail.port)
        if mail.starttls:
            server.starttls(context=ssl.create_default_context())
        if mail.user:
            server.login(mail.user, mail.password)
        server.send_message(message)


def _body(record: JobRecord, settings: Settings) -> bytes:
    document = job_document(record)
    links = {name: _link(path, settings) for name, path in document["links"].items()}
    return json.dumps({**document, "links": links}).encode()


def signature(secret: str, key: str, timestamp: str, body: bytes) -> str:
    """What shows a receiver that a message is from who knows the secret.

    Args:
        secret: Known to both.
        key: Id of the message, which stays the same when it is sent again.
        timestamp: When it was sent, s since 1970.
        body: The document.
    """
    signed = b".".join((key.encode(), timestamp.encode(), body))
    return f"v1={hmac.new(secret.encode(), signed, 'sha256').hexdigest()}"


def _call(target: Target, body: bytes, key: str, secret: str | None) -> None:
    """POST a document to a webhook; where it redirects to does not matter."""
    now = str(int(time.time()))
    headers = {
        "Content-Type": "application/json", "User-Agent": "irene", "Webhook-Id": key,
        "Webhook-Timestamp": now,
    }  # fmt: skip
    if secret:
        headers["Webhook-Signature"] = signature(secret, key, now, body)
    connection = _Connection(target)
    try:
        with _in_time(lambda: connection.sock):
            connection.request("POST", target.path, body, headers)
            status = connection.getresponse().status
    finally:
        connection.close()
    if status >= 500 or status == 429:
        raise http.client.HTTPException(f"{target.host} answered {status}")
    if status >= 300:
        logger.warning("webhook at %s answered %s", target.host, status)


class _Connection(http.client.HTTPConnection):
    """Connects to the address that was judged, whatever the name means by now."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.host, target.port, timeout=TIMEOUT_S)
        self._target = target
        self.default_port = 443 if target.scheme == "https" else 80

    def connect(self) -> None:
        line = socket.create_connection(
            (self._target.address, self._target.port), TIMEOUT_S
        )
        self.sock = line
        if self._target.scheme == "https":
            context = ssl.create_default_context()
            self.sock = safe = context.wrap_socket(
                line, server_hostname=self._target.host, do_handshake_on_connect=False
            )
            safe.do_handshake()


# Where a webhook may go -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook that may be called, and the address to connect to."""

    scheme: str
    host: str
    port: int
    path: str
    address: str


def check_webhook(url: str) -> str:
    """Refuse what is no URL of the web."""
    if len(url) > LONGEST_URL or not url.isascii():
        raise UsageError(f"a webhook is a URL of at most {LONGEST_URL:,} characters")
    if any(c.isspace() or not c.isprintable() for c in url):
        raise UsageError("a webhook has no spaces or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"a webhook is a URL: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
        raise UsageError("a webhook begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise UsageError("a webhook carries no password")
    return url


def find_target(url: str, private_allowed: bool) -> Target:
    """Look a webhook's host up.

    Raises:
        UsageError: One of its addresses is not of the internet.
        OSError: Nobody knows its name.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not private_allowed:
        inside = [address for address in addresses if not _is_public(address)]
        if inside:
            raise UsageError(
                f"{host} is {inside[0]}, which is no address of the internet; "
                "the server would have to allow private webhooks"
            )
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    return Target(parts.scheme, host, port, path + query, addresses[0])


NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8",
            "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
            "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
            "224.0.0.0/4", "240.0.0.0/4",
            "2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20",
        ),
    )
)  # fmt: skip
"""Special-purpose addresses (IANA's registries, RFC 6890), and multicast."""
UNICAST = ipaddress.ip_network("2000::/3")
"""The only part of IPv6 that is the internet's."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is None and address not in UNICAST:
            return False
        address = inner or address
    return not any(address in network for network in NOT_PUBLIC)
