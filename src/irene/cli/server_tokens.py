"""`irene token`: who may use a server, for what and until when."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from irene.cli.options import duration_s
from irene.cli.output import put
from irene.cli.serve import check_extra, folder_of
from irene.errors import UsageError
from irene.parameters import Asked

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


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        action: What to do.
        name: Whose token it is.
        for_: Read, compute (uploads, predictions), measure.
        expires: When it ends from now, as 90d (default: never).
        data_dir: As for `irene serve`.
        json: One JSON document.
    """

    action: Annotated[Literal["add", "list", "remove"], Asked(word=True)]
    name: Annotated[str | None, Asked(word=True, metavar="NAME")] = None
    for_: Annotated[str, Asked(metavar="SCOPES")] = "read,compute"
    expires: Annotated[str | None, Asked(metavar="AGE")] = None
    data_dir: Annotated[str | None, Asked(metavar="FOLDER")] = None
    json: bool = False


def run(options: Options) -> int:
    """Do what the action says."""
    check_extra()
    from irene.serve.http.tokens import add_token, read_tokens, remove_token

    path = folder_of(options.data_dir) / "tokens.json"
    name = options.name or ""
    if (options.name is None) != (options.action == "list"):
        words = "needs" if options.name is None else "takes no"
        raise UsageError(f"`irene token {options.action}` {words} NAME")
    if options.action == "add":
        ends = time.time() + duration_s(options.expires) if options.expires else None
        scopes = [each.strip() for each in options.for_.split(",")]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = add_token(path, name, scopes, ends)
        lines = [text]
        told: dict[str, Any] = {"name": name, "token": text}
        told |= {"scopes": scopes, "expires": ends}
    elif options.action == "remove":
        remove_token(path, name)
        told, lines = {"removed": name}, [f"removed {name}"]
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
