"""Says that a job has ended: by e-mail, or by calling a webhook.

A message that cannot be sent is logged; the job is what it is all the same. A webhook
goes to the internet, not into the server's own network: its address is looked up once,
judged, and connected to as it was judged; a name that points elsewhere a moment later
changes nothing.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import logging
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from irene.errors import UsageError
from irene.serve.http.settings import Mail, Settings
from irene.serve.jobs.document import job_document
from irene.serve.store.job_records import JobRecord

__all__ = ["Target", "check_notify", "check_webhook", "find_target", "notify"]

logger = logging.getLogger(__name__)
TIMEOUT_S = 10.0
PAUSES_S = (1.0, 4.0, 15.0)
"""Time between two tries, s."""
LONGEST_ADDRESS = 254
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}")
LONGEST_URL = 2_000
PORTS = {"http": 80, "https": 443}
WAYS = ("email", "webhook")


def check_notify(wishes: object, settings: Settings) -> dict[str, str]:
    """Refuse what this server does not do.

    Args:
        wishes: `email`, `webhook`, both or nothing.
        settings: What it does.

    Raises:
        UsageError: The wishes cannot be met; the message says why.
    """
    if wishes is None:
        return {}
    if not isinstance(wishes, dict) or not set(wishes) <= set(WAYS):
        raise UsageError(f"notify has the fields {' and '.join(WAYS)}")
    kept: dict[str, str] = {}
    if wishes.get("email") is not None:
        kept["email"] = _checked_address(wishes["email"], settings.mail)
    if wishes.get("webhook") is not None:
        if not settings.webhooks:
            raise UsageError("this server calls no webhooks")
        kept["webhook"] = check_webhook(wishes["webhook"])
    return kept


def _checked_address(address: object, mail: Mail | None) -> str:
    if mail is None:
        raise UsageError("this server sends no e-mail: follow the job by its link")
    if (
        not isinstance(address, str)
        or len(address) > LONGEST_ADDRESS
        or ADDRESS.fullmatch(address) is None
    ):
        raise UsageError("that is no e-mail address")
    return address


def notify(
    record: JobRecord,
    settings: Settings,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Send what the job's owner asked for; never raises.

    Args:
        record: The job, at its end.
        settings: How to send it.
        sleep: Waits between tries.
    """
    wishes: Mapping[str, Any] = record.request.get("notify") or {}
    if "email" in wishes and settings.mail is not None:
        mail, address = settings.mail, wishes["email"]
        message = _message(record, address, settings)
        _try_often("e-mail", lambda: _send_mail(mail, message), sleep)
    if "webhook" in wishes and settings.webhooks:
        url, body = wishes["webhook"], _body(record, settings)
        _try_often(
            "webhook",
            lambda: _call(find_target(url, settings.private_webhooks), body),
            sleep,
        )


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


def _send_mail(mail: Mail, message: EmailMessage) -> None:
    with smtplib.SMTP(mail.host, mail.port, timeout=TIMEOUT_S) as server:
        if mail.starttls:
            server.starttls(context=ssl.create_default_context())
        if mail.user:
            server.login(mail.user, mail.password)
        server.send_message(message)


def _body(record: JobRecord, settings: Settings) -> bytes:
    document = job_document(record)
    links = {name: _link(path, settings) for name, path in document["links"].items()}
    return json.dumps({**document, "links": links}).encode()


def _call(target: Target, body: bytes) -> None:
    """POST a document to a webhook; where it redirects to does not matter."""
    connection = _Connection(target)
    try:
        headers = {"Content-Type": "application/json", "User-Agent": "irene"}
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
        if self._target.scheme == "https":
            context = ssl.create_default_context()
            line = context.wrap_socket(line, server_hostname=self._target.host)
        self.sock = line


# Where a webhook may go -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook that may be called.

    Attributes:
        scheme: `http` or `https`.
        host: Its name, as it was given.
        port: Its port.
        path: Path and query.
        address: The address to connect to.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: str


def check_webhook(url: object) -> str:
    """Refuse what is no URL of the web.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(url, str) or len(url) > LONGEST_URL or not url.isascii():
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

    Args:
        url: The webhook, checked.
        private_allowed: Whether it may be in a private network, or this machine.

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


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            return False
        if inner is not None:
            address = inner
        elif address in ipaddress.ip_network("64:ff9b::/96"):  # NAT64
            address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.is_global and not address.is_multicast
