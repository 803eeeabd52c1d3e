"""`irene serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.options import duration_s, whole_number
from irene.errors import MissingExtraError

if TYPE_CHECKING:
    from irene.serve.http.settings import Settings

__all__ = ["check_extra", "configure", "run", "usual_folder"]

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options, each under the name of the setting that it makes."""
    # What is not given has the default of `Settings`.
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument(
        "--port", type=whole_number, metavar="N",
        help="port to listen on, 0 for any free one (default 8000)",
    )  # fmt: skip
    parser.add_argument(
        "--data-dir", type=Path, metavar="FOLDER",
        help="where answers, uploads and jobs are kept (default: in the user's data "
        "folder)",
    )  # fmt: skip
    parser.add_argument(
        "--store", dest="store_url", metavar="URL",
        help="database instead of a SQLite file, as postgresql://USER@HOST/NAME",
    )  # fmt: skip
    parser.add_argument(
        "--public-url", metavar="URL",
        help="how clients reach the server, for links in messages",
    )  # fmt: skip
    parser.add_argument(
        "--allowed-host", dest="allowed_hosts", action="append", metavar="NAME",
        help="a further name under which requests may come; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--proxy", dest="proxies", action="append", metavar="ADDRESS",
        help="a proxy, by address or network, whose X-Forwarded-For names the client; "
        "may be given several times (default: this machine)",
    )  # fmt: skip
    _add_processes(parser)
    _add_access(parser)
    _add_limits(parser)
    _add_messages(parser)
    parser.argument_default = None


def _add_processes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("processes")
    group.add_argument(
        "--workers", type=whole_number, metavar="N", help="HTTP processes (default 1)"
    )
    group.add_argument(
        "--computing", type=whole_number, metavar="N",
        help="processes that trace and predict, for each HTTP process (default 2)",
    )  # fmt: skip


def _add_access(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who may do what")
    group.add_argument(
        "--token", metavar="TEXT",
        help="what clients must show for jobs and uploads (default: IRENE_TOKEN)",
    )  # fmt: skip
    group.add_argument(
        "--private", action="store_true",
        help="a token is needed to read, too (`irene token add`)",
    )  # fmt: skip
    group.add_argument(
        "--read-only", action="store_true", help="refuse jobs and uploads"
    )
    group.add_argument(
        "--hub", action="store_true",
        help="fetch configs of models that the catalogue does not have from the "
        "Hugging Face hub",
    )  # fmt: skip
    group.add_argument(
        "--no-measuring", action="store_false", dest="measuring",
        help="refuse jobs that measure here",
    )  # fmt: skip


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--rate", type=float, dest="requests_per_s", metavar="N",
        help="requests per second of one client, 0 for any (default: 50, and any for "
        "who asks from this machine)",
    )  # fmt: skip
    group.add_argument(
        "--seconds", type=float, metavar="S", help="longest computation (default 60)"
    )
    group.add_argument(
        "--queue", type=whole_number, metavar="N",
        help="computations that may wait (default 64)",
    )  # fmt: skip
    group.add_argument(
        "--max-upload", type=whole_number, dest="upload_bytes", metavar="BYTES",
        help="largest upload (default 20,000,000)",
    )  # fmt: skip
    group.add_argument(
        "--max-stored", type=whole_number, dest="stored_bytes", metavar="BYTES",
        help="answers that are kept before the longest unused go (default 4e9)",
    )  # fmt: skip
    group.add_argument(
        "--retain", type=duration_s, dest="retain_s", metavar="AGE",
        help="delete what nobody has used for so long, as 30d or 12h (default: never)",
    )  # fmt: skip
    group.add_argument(
        "--no-access-log", action="store_false", dest="access_log",
        help="do not log every request",
    )  # fmt: skip
    group.add_argument(
        "--log", choices=("text", "json"),
        help="form of the log's lines (default: text on a terminal, else json)",
    )  # fmt: skip
    group.add_argument(
        "--otlp", dest="otlp_url", metavar="URL",
        help="OpenTelemetry collector for traces, as http://localhost:4318/v1/traces",
    )  # fmt: skip


def _add_messages(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("messages when a job is ready")
    group.add_argument(
        "--smtp", default="", metavar="HOST[:PORT]",
        help="server that sends e-mail (password: IRENE_SMTP_PASSWORD)",
    )  # fmt: skip
    group.add_argument("--smtp-user", default="", metavar="NAME", help="to log in with")
    group.add_argument(
        "--mail-from", default="irene@localhost", metavar="ADDRESS",
        help="sender of e-mail (default irene@localhost)",
    )  # fmt: skip
    group.add_argument(
        "--no-webhooks", action="store_false", dest="webhooks",
        help="refuse to call addresses of clients",
    )  # fmt: skip
    group.add_argument(
        "--private-webhooks", action="store_true",
        help="also call addresses of private networks",
    )  # fmt: skip


def check_extra() -> None:
    """See that what a server needs is installed.

    Raises:
        MissingExtraError: It is not.
    """
    try:
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"the server needs {error.name}: pip install 'irene-energy[serve]'"
        ) from error


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
