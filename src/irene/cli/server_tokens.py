"""`irene token`: who may use a server, for what and until when."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from irene.cli.options import duration_s
from irene.cli.output import put
from irene.cli.serve import check_extra, usual_folder
from irene.errors import UsageError

USAGE = "{add,list,remove} …"
EXAMPLES = """\
A token is shown once, when it is made; its digest is kept in the server's folder. A
server that runs knows of changes at once.

examples:
  irene token add alice
  irene token add ci --for read,compute --expires 90d
  irene token list
  irene token remove ci
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("action", choices=("add", "list", "remove"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="whose token it is")
    parser.add_argument(
        "--for", dest="scopes", default="read,compute", metavar="SCOPES",
        help="read, compute (uploads, predictions), measure (default read,compute)",
    )  # fmt: skip
    parser.add_argument(
        "--expires", type=duration_s, metavar="AGE",
        help="when it ends from now, as 90d (default: never)",
    )  # fmt: skip
    parser.add_argument(
        "--data-dir", type=Path, metavar="FOLDER", help="as for `irene serve`"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    check_extra()
    from irene.serve.http.tokens import add_token, read_tokens, remove_token

    path = (options.data_dir or usual_folder()).absolute() / "tokens.json"
    if (options.name is None) != (options.action == "list"):
        words = "needs" if options.name is None else "takes no"
        raise UsageError(f"`irene token {options.action}` {words} NAME")
    if options.action == "add":
        ends = None if options.expires is None else time.time() + options.expires
        scopes = [each.strip() for each in options.scopes.split(",")]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = add_token(path, options.name, scopes, ends)
        lines = [text]
        told: dict[str, Any] = {"name": options.name, "token": text}
        told |= {"scopes": scopes, "expires": ends}
    elif options.action == "remove":
        remove_token(path, options.name)
        told, lines = {"removed": options.name}, [f"removed {options.name}"]
    else:
        tokens = read_tokens(path)
        lines = [
            f"{each.name:20} {','.join(each.scopes):22} {_until(each.expires)}"
            for each in tokens
        ]
        shown = ("name", "scopes", "expires")
        told = {"tokens": [{k: getattr(each, k) for k in shown} for each in tokens]}
    put(options, told, lines or ["no tokens"], "irene.token/1")
    return 0


def _until(expires: float | None) -> str:
    if expires is None:
        return "never ends"
    when = datetime.fromtimestamp(expires, UTC).isoformat(" ", "minutes")
    return f"{'ended' if expires < time.time() else 'ends'} {when}"
