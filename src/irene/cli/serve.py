"""`irene serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.options import duration_s, whole_number
from irene.errors import MissingExtraError

if TYPE_CHECKING:
    from irene.serve.http.settings import Settings

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


Option = tuple[str, str, dict[str, Any]]
NUMBER = {"type": whole_number, "metavar": "N"}
BYTES = {"type": whole_number, "metavar": "BYTES"}
TRUE, FALSE = {"action": "store_true"}, {"action": "store_false"}
OPTIONS: dict[str, tuple[Option, ...]] = {
    "": (
        ("--host", "address to listen on (default 127.0.0.1)", {}),
        ("--port", "port to listen on, 0 for any free one (default 8000)", NUMBER),
        ("--data-dir", "where answers, uploads and jobs are kept (default: in the "
         "user's data folder)", {"type": Path, "metavar": "FOLDER"}),
        ("--store", "database instead of a SQLite file, as postgresql://USER@HOST/NAME",
         {"dest": "store_url", "metavar": "URL"}),
        ("--public-url", "how clients reach the server, for links in messages",
         {"metavar": "URL"}),
        ("--allowed-host", "a further name under which requests may come; may be given "
         "several times",
         {"dest": "allowed_hosts", "action": "append", "metavar": "NAME"}),
        ("--proxy", "a proxy, by address or network, whose X-Forwarded-For names the "
         "client; may be given several times (default: this machine)",
         {"dest": "proxies", "action": "append", "metavar": "ADDRESS"}),
    ),
    "processes": (
        ("--workers", "HTTP processes (default 1)", NUMBER),
        ("--computing", "processes that trace and predict, for each HTTP process "
         "(default 2)", NUMBER),
    ),
    "who may do what": (
        ("--token", "what clients must show for jobs and uploads (default: "
         "IRENE_TOKEN)", {"metavar": "TEXT"}),
        ("--private", "a token is needed to read, too (`irene token add`)", TRUE),
        ("--read-only", "refuse jobs and uploads", TRUE),
        ("--hub", "fetch configs of models that the catalogue does not have from the "
         "Hugging Face hub", TRUE),
        ("--no-measuring", "refuse jobs that measure here",
         {**FALSE, "dest": "measuring"}),
    ),
    "limits": (
        ("--rate", "requests per second of one client, 0 for any (default: 50, and any "
         "for who asks from this machine)",
         {"type": float, "dest": "requests_per_s", "metavar": "N"}),
        ("--seconds", "longest computation (default 60)",
         {"type": float, "metavar": "S"}),
        ("--queue", "computations that may wait (default 64)", NUMBER),
        ("--max-upload", "largest upload (default 20,000,000)",
         {**BYTES, "dest": "upload_bytes"}),
        ("--max-stored", "answers that are kept before the longest unused go (default "
         "4e9)", {**BYTES, "dest": "stored_bytes"}),
        ("--retain", "delete what nobody has used for so long, as 30d or 12h (default: "
         "never)", {"type": duration_s, "dest": "retain_s", "metavar": "AGE"}),
        ("--no-access-log", "do not log every request",
         {**FALSE, "dest": "access_log"}),
        ("--log", "form of the log's lines (default: text on a terminal, else json)",
         {"choices": ("text", "json")}),
        ("--otlp", "OpenTelemetry collector for traces, as "
         "http://localhost:4318/v1/traces", {"dest": "otlp_url", "metavar": "URL"}),
    ),
    "messages when a job is ready": (
        ("--smtp", "server that sends e-mail (password: IRENE_SMTP_PASSWORD)",
         {"default": "", "metavar": "HOST[:PORT]"}),
        ("--smtp-user", "to log in with", {"default": "", "metavar": "NAME"}),
        ("--mail-from", "sender of e-mail (default irene@localhost)",
         {"default": "irene@localhost", "metavar": "ADDRESS"}),
        ("--no-webhooks", "refuse to call addresses of clients",
         {**FALSE, "dest": "webhooks"}),
        ("--private-webhooks", "also call addresses of private networks", TRUE),
    ),
}  # fmt: skip
"""By group: each makes the setting of its name, which else has its own default."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.argument_default = argparse.SUPPRESS
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title) if title else parser
        for flag, words, how in options:
            group.add_argument(flag, help=words, **how)
    parser.argument_default = None


def check_extra() -> None:
    """See that what a server needs is installed.

    Raises:
        MissingExtraError: It is not.
    """
    for name in ("fastapi", "sqlalchemy", "uvicorn"):
        if find_spec(name) is None:
            raise MissingExtraError(
                f"the server needs {name}: pip install 'irene-energy[serve]'"
            )


def run(options: argparse.Namespace) -> int:
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


def _settings(options: argparse.Namespace) -> Settings:
    from irene.serve.http.settings import Limits, Settings

    given = vars(options)

    def of(kind: type[Any]) -> dict[str, Any]:
        return {f.name: given[f.name] for f in fields(kind) if f.name in given}

    chosen = of(Settings)
    folder = chosen.pop("data_dir", None) or usual_folder()
    chosen["token"] = given.get("token") or os.environ.get("IRENE_TOKEN") or None
    chosen["webhook_secret"] = os.environ.get("IRENE_WEBHOOK_SECRET") or None
    for name in ("allowed_hosts", "proxies"):
        if name in chosen:
            chosen[name] = tuple(chosen[name])
    form = given.get("log") or ("text" if sys.stderr.isatty() else "json")
    return Settings(
        folder.absolute(), mail=_mail(options), limits=Limits(**of(Limits)),
        json_log=form == "json", **chosen,
    )  # fmt: skip


def _mail(options: argparse.Namespace) -> Any:
    from irene.serve.http.settings import Mail

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


def usual_folder() -> Path:
    """Where a server keeps everything, if it is not told."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "irene" / "serve"
