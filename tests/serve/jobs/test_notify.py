from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from irene.errors import UsageError
from irene.serve.http.settings import Mail, Settings
from irene.serve.jobs.notify import (
    check_notify,
    check_webhook,
    find_target,
    notify,
    signature,
)
from irene.serve.store.job_records import JobRecord

LOCAL = "127.0.0.1"


def job(**wishes: str) -> JobRecord:
    request = {"kind": "predict", "model": "gpt2", "run": {}, "notify": wishes}
    return JobRecord(
        "ab" * 16, "s", "predict", "succeeded", 3, 1, request, {}, 1.0, 2.0, 3.0, "k",
        None,
    )  # fmt: skip


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks as much SMTP as smtplib needs, and keeps what it was given."""

    allow_reuse_address = True

    def __init__(self) -> None:
        self.mails: list[str] = []
        super().__init__((LOCAL, 0), MailHandler)


class MailHandler(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.say("220 test")
        while line := self.rfile.readline().decode():
            if line.upper().startswith("DATA"):
                self.say("354 go on")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part.decode())
                self.server.mails.append("".join(lines))
            self.say("221 bye" if line.upper().startswith("QUIT") else "250 ok")

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class Hook(ThreadingHTTPServer):
    """Keeps what it is called with; answers with one status after the other."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.raw: list[bytes] = []
        super().__init__((LOCAL, 0), HookHandler)

    @property
    def url(self) -> str:
        return f"http://{LOCAL}:{self.server_port}/hook?a=1"


class HookHandler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.raw.append(self.rfile.read(length))
        self.server.headers.append(self.headers)
        self.server.bodies.append(json.loads(self.server.raw[-1]))
        statuses = self.server.statuses
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Location", "http://169.254.169.254/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, public_url="https://irene.example/", read_only=True)


@pytest.fixture
def served() -> Iterator[list[socketserver.BaseServer]]:
    servers: list[socketserver.BaseServer] = []
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def begin(server: Any, served: list[socketserver.BaseServer]) -> Any:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served.append(server)
    return server


def test_a_mail_says_that_the_job_has_ended(
    settings: Settings, served: list[socketserver.BaseServer]
) -> None:
    server = begin(MailServer(), served)
    mail = Mail(LOCAL, server.server_address[1], "irene@lab.example")
    notify(job(email="me@lab.example"), replace(settings, mail=mail))
    (text,) = server.mails
    assert "To: me@lab.example" in text
    assert "gpt2" in text
    assert f"https://irene.example/jobs/{'ab' * 16}" in text


def test_a_webhook_gets_the_job(
    settings: Settings, served: list[socketserver.BaseServer]
) -> None:
    hook = begin(Hook(200), served)
    notify(job(webhook=hook.url), replace(settings, private_webhooks=True))
    (body,) = hook.bodies
    assert (body["schema"], body["state"]) == ("irene.job/1", "succeeded")
    assert body["links"]["self"].startswith("https://irene.example/api/v1/jobs/")
    assert "notify" not in body["request"]


def test_a_webhook_that_fails_is_called_again(
    settings: Settings, served: list[socketserver.BaseServer]
) -> None:
    hook = begin(Hook(503, 500, 200), served)
    pauses: list[float] = []
    notify(
        job(webhook=hook.url), replace(settings, private_webhooks=True), pauses.append
    )
    assert len(hook.bodies) == 3
    assert len(pauses) == 2


def test_a_redirection_is_not_followed(
    settings: Settings, served: list[socketserver.BaseServer]
) -> None:
    hook = begin(Hook(307), served)
    notify(job(webhook=hook.url), replace(settings, private_webhooks=True))
    assert len(hook.bodies) == 1


def test_what_cannot_be_sent_is_given_up(settings: Settings) -> None:
    mail = Mail(LOCAL, 9)
    pauses: list[float] = []
    wishes = job(email="me@lab.example", webhook="http://nowhere.invalid/")
    notify(wishes, replace(settings, mail=mail), pauses.append)
    assert len(pauses) == 6


def test_a_private_address_is_never_called(
    settings: Settings, served: list[socketserver.BaseServer]
) -> None:
    hook = begin(Hook(200), served)
    pauses: list[float] = []
    notify(job(webhook=hook.url), settings, pauses.append)
    assert hook.bodies == []
    assert pauses == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "0.0.0.0", "10.1.2.3", "192.168.0.1", "169.254.169.254", "[::1]",
        "[::ffff:10.0.0.1]", "[fd00::1]", "[fe80::1]", "localhost", "0x7f000001",
        "2130706433", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "100.64.0.1", "224.0.0.1",
        "[fec0::1]", "[64:ff9b:1::1]", "[::10.0.0.1]", "[::ffff:0:10.0.0.1]",
        "[5f00::1]", "[3fff::1]", "[2001::1]", "[2001:db8::1]", "[ff02::1]",
        "192.0.0.8", "198.18.0.1", "192.88.99.1", "240.0.0.1", "[100::1]",
    ],
)  # fmt: skip
def test_addresses_of_our_own_network_are_refused(host: str) -> None:
    url = check_webhook(f"http://{host}/")
    with pytest.raises((UsageError, OSError)):
        find_target(url, private_allowed=False)


def test_an_address_of_the_internet_is_connected_to_as_it_was_judged() -> None:
    target = find_target("https://9.9.9.9:8443/a?b=c", private_allowed=False)
    assert (target.address, target.port, target.path) == ("9.9.9.9", 8443, "/a?b=c")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x.example/", "file:///etc/passwd", "http://", "x", "",
        "http://u:p@x.example/", "http://x.example:0/", "http://x.example:99999/",
        "http://x.example/\r\nHost: y", "http://x.example/" + "a" * 3000, "http://[::1/",
        "javascript:alert(1)", "http://ü.example/",
    ],
)  # fmt: skip
def test_what_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        check_webhook(url)


@pytest.mark.parametrize(
    "wishes",
    [
        {"email": "me@lab.example\nBcc: all@lab.example"},
        {"email": "no address"},
        {"webhook": "gopher://x"},
    ],
)
def test_wishes_that_cannot_be_met_are_refused(
    settings: Settings, wishes: dict[str, str]
) -> None:
    with pytest.raises(UsageError):
        check_notify(wishes, replace(settings, mail=Mail(LOCAL)))


def test_a_server_without_mail_says_so(settings: Settings) -> None:
    with pytest.raises(UsageError, match="sends no e-mail"):
        check_notify({"email": "me@lab.example"}, settings)
    with pytest.raises(UsageError, match="no webhooks"):
        check_notify(
            {"webhook": "https://x.example"}, replace(settings, webhooks=False)
        )
    assert check_notify(None, settings) == {}


def test_a_webhook_is_signed(
    settings: Settings, served: list[socketserver.BaseServer]
) -> None:
    hook = begin(Hook(500, 200), served)
    wishes = job(webhook=hook.url, secret="of the receiver")
    notify(wishes, replace(settings, private_webhooks=True), lambda _: None)
    for headers, body in zip(hook.headers, hook.raw, strict=True):
        key, stamp = headers["Webhook-Id"], headers["Webhook-Timestamp"]
        assert key == "ab" * 16  # the same when it is sent again
        assert abs(int(stamp) - time.time()) < 600
        right = signature("of the receiver", key, stamp, body)
        assert headers["Webhook-Signature"] == right
        assert right != signature("another", key, stamp, body)


class Drip(socketserver.BaseRequestHandler):
    """Answers a byte now and then, for ever."""

    def handle(self) -> None:
        ended: threading.Event = self.server.ended  # type: ignore[attr-defined]
        try:
            while not ended.wait(0.02):
                self.request.sendall(b"H")
        except OSError:
            pass


def test_a_webhook_that_drips_has_its_time(
    settings: Settings,
    served: list[socketserver.BaseServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Drips(socketserver.ThreadingTCPServer):
        daemon_threads = True
        ended = threading.Event()

    monkeypatch.setattr("irene.serve.jobs.notify.TIMEOUT_S", 0.2)
    drips = begin(Drips((LOCAL, 0), Drip), served)
    url = f"http://{LOCAL}:{drips.server_address[1]}/"
    pauses: list[float] = []
    caller = threading.Thread(
        target=notify,
        args=(
            job(webhook=url),
            replace(settings, private_webhooks=True),
            pauses.append,
        ),
        daemon=True,
    )
    caller.start()
    caller.join(60)  # it would never end
    Drips.ended.set()
    assert not caller.is_alive()
    assert len(pauses) == 3


def test_a_private_webhook_is_refused_at_once(settings: Settings) -> None:
    inside = ("127.0.0.1", "localhost", "[::1]", "10.0.0.1", "0x7f.1", "2130706433")
    for host in (*inside, "127.1", "0", "LOCALHOST.", "a.localhost"):
        with pytest.raises(UsageError, match="internet"):
            check_notify({"webhook": f"http://{host}/x"}, settings)
    with pytest.raises(UsageError, match="16 to 200"):
        check_notify({"webhook": "https://x.example", "secret": "short"}, settings)
