"""`irene serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from irene.cli.options import duration_s, whole_number
from irene.errors import MissingExtraError
from irene.parameters import Asked
from irene.serve.http.settings import Limits, Mail, Settings

USAGE = "[options]"
EXAMPLES = """\
Without options only this machine can reach the server. Elsewhere jobs and uploads need
a token (or IRENE_TOKEN, which does not show in the list of processes).

examples:
  irene serve
  irene serve --port 9000 --data-dir ./irene-data
  IRENE_TOKEN=… irene serve --host 0.0.0.0 --workers 2
  irene serve --host 0.0.0.0 --read-only
  irene serve --store postgresql://irene@db/irene
"""


PROCESSES, ACCESS, LIMITS = "processes", "who may do what", "limits"
MESSAGES = "messages when a job is ready"
USUAL, USUAL_LIMITS = Settings(Path()), Limits()
"""What is not given is as the server has it."""


def _asked(group: str = "", metavar: str = "N") -> Asked:
    return Asked(metavar=metavar, group=group, longest=2_000)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with; what is not given is as the server has it.

    Attributes:
        host: Address to listen on.
        port: Port to listen on, 0 for any free one.
        data_dir: Where answers, uploads and jobs are kept (default: in the user's data
            folder).
        store: Database instead of a SQLite file, as postgresql://USER@HOST/NAME.
        public_url: How clients reach the server, for links in messages.
        allowed_host: Further name under which requests may come; may be given several
            times.
        proxy: Proxy, by address or network, whose X-Forwarded-For names the client;
            may be given several times (default: this machine).
        workers: HTTP processes.
        computing: Processes that trace and predict, for each HTTP process.
        token: What clients must show for jobs and uploads (default: IRENE_TOKEN).
        private: Ask for a token to read, too (`irene token add`).
        read_only: Refuse jobs and uploads.
        hub: Fetch configs of models that the catalogue does not have from the Hugging
            Face hub.
        measuring: Refuse jobs that measure here.
        rate: Requests per second of one client, 0 for any (default: 50, and any for who
            asks from this machine).
        seconds: Longest computation.
        queue: Computations that may wait.
        max_upload: Largest upload (default 20,000,000).
        max_stored: Answers that are kept before the longest unused go (default 4e9).
        retain: Delete what nobody has used for so long, as 30d or 12h (default: never).
        access_log: Do not log every request.
        log: Form of the log's lines (default: text on a terminal, else json).
        otlp: Collector of OpenTelemetry for traces, as http://localhost:4318/v1/traces.
        smtp: Server that sends e-mail (password: IRENE_SMTP_PASSWORD).
        smtp_user: To log in with.
        mail_from: Sender of e-mail.
        webhooks: Refuse to call addresses of clients.
        private_webhooks: Also call addresses of private networks.
    """

    host: str = USUAL.host
    port: Annotated[int, _asked()] = USUAL.port
    data_dir: Annotated[str | None, _asked(metavar="FOLDER")] = None
    store: Annotated[str | None, _asked(metavar="URL")] = None
    public_url: Annotated[str | None, _asked(metavar="URL")] = None
    allowed_host: Annotated[tuple[str, ...], _asked(metavar="NAME")] = ()
    proxy: Annotated[tuple[str, ...], _asked(metavar="ADDRESS")] = USUAL.proxies
    workers: Annotated[int, _asked(PROCESSES)] = USUAL.workers
    computing: Annotated[int, _asked(PROCESSES)] = USUAL.computing
    token: Annotated[str | None, _asked(ACCESS, "TEXT")] = None
    private: Annotated[bool, _asked(ACCESS)] = False
    read_only: Annotated[bool, _asked(ACCESS)] = False
    hub: Annotated[bool, _asked(ACCESS)] = False
    measuring: Annotated[bool, _asked(ACCESS)] = True
    rate: Annotated[float | None, _asked(LIMITS)] = None
    seconds: Annotated[float, _asked(LIMITS, "S")] = USUAL_LIMITS.seconds
    queue: Annotated[int, _asked(LIMITS)] = USUAL_LIMITS.queue
    max_upload: Annotated[int, _asked(LIMITS, "BYTES")] = USUAL_LIMITS.upload_bytes
    max_stored: Annotated[int, _asked(LIMITS, "BYTES")] = USUAL_LIMITS.stored_bytes
    retain: Annotated[str | None, _asked(LIMITS, "AGE")] = None
    access_log: Annotated[bool, _asked(LIMITS)] = True
    log: Annotated[Literal["text", "json"] | None, _asked(LIMITS, "")] = None
    otlp: Annotated[str | None, _asked(LIMITS, "URL")] = None
    smtp: Annotated[str, _asked(MESSAGES, "HOST[:PORT]")] = ""
    smtp_user: Annotated[str, _asked(MESSAGES, "NAME")] = ""
    mail_from: Annotated[str, _asked(MESSAGES, "ADDRESS")] = "irene@localhost"
    webhooks: Annotated[bool, _asked(MESSAGES)] = True
    private_webhooks: Annotated[bool, _asked(MESSAGES)] = False


def check_extra() -> None:
    """See that what a server needs is installed."""
    for name in ("fastapi", "sqlalchemy", "uvicorn"):
        if find_spec(name) is None:
            raise MissingExtraError(
                f"the server needs {name}: pip install 'irene-energy[serve]'"
            )


def run(options: Options) -> int:
    """Serve until a signal says to stop."""
    check_extra()
    from irene.serve.http.logs import set_up_log
    from irene.serve.http.server import listen
    from irene.serve.http.server import run as serve

    settings = _settings(options)
    set_up_log(settings.json_log)
    sock = listen(settings)
    host, port = sock.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    print(f"irene serves http://{name}:{port} from {settings.data_dir}", flush=True)
    with sock:
        serve(settings, sock)
    return 0


SAME = (
    "host", "port", "public_url", "workers", "computing", "private", "read_only", "hub",
    "measuring", "access_log", "webhooks", "private_webhooks",
)  # fmt: skip
"""Options that are settings of the same name."""


def _settings(options: Options) -> Settings:
    limits = Limits(
        requests_per_s=options.rate, seconds=options.seconds, queue=options.queue,
        upload_bytes=options.max_upload, stored_bytes=options.max_stored,
    )  # fmt: skip
    form = options.log or ("text" if sys.stderr.isatty() else "json")
    return Settings(
        folder_of(options.data_dir),
        **{name: getattr(options, name) for name in SAME},
        store_url=options.store,
        token=options.token or os.environ.get("IRENE_TOKEN") or None,
        allowed_hosts=options.allowed_host,
        proxies=options.proxy,
        mail=_mail(options),
        webhook_secret=os.environ.get("IRENE_WEBHOOK_SECRET") or None,
        retain_s=duration_s(options.retain) if options.retain else None,
        json_log=form == "json",
        otlp_url=options.otlp,
        limits=limits,
    )


def _mail(options: Options) -> Mail | None:
    if not options.smtp:
        return None
    host, _, port = options.smtp.partition(":")
    return Mail(
        host,
        whole_number(port) if port else 25,
        options.mail_from,
        options.smtp_user,
        os.environ.get("IRENE_SMTP_PASSWORD", ""),
        starttls=bool(options.smtp_user),
    )


def folder_of(given: str | None) -> Path:
    """Where a server keeps everything: as it is told, else in the user's data."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(given or Path(home) / "irene" / "serve").absolute()
