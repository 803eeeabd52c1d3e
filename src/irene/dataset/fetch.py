"""Downloads the public data of 2021, file by file, each checked before it is kept."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from irene.dataset.formats.csv2021 import FILES
from irene.errors import FormatError, IreneError, UsageError
from irene.meters.wall.http_json import taken_apart
from irene.whole_file import whole_file

TIMEOUT_S = 30.0

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class PublicFile:
    """One file of public data: its name, its length in bytes, its SHA-256."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PublicData:
    """Public data that can be fetched, into a folder of this name."""

    folder: str
    base_url: str
    about: str
    files: tuple[PublicFile, ...]


PUBLIC = {
    "irene-2021": PublicData(
        "irene-pc1",
        "https://raw.githubusercontent.com/StonyBrookNLP/irene/original/"
        "datasets/device_1",
        "IrEne, ACL 2021, Cao et al.: six transformers on one GTX 1080 Ti, wall meter; "
        "no licence is stated: use it, do not pass it on",
        (
            PublicFile(
                FILES["model"],
                30_075,
                "83d2d4218c9389b402f471b093abde5082ac21fdf7d97c2b21270e42550b9596",
            ),
            PublicFile(
                FILES["module"],
                1_385_551,
                "1903a6887c56f4ef1c6c792653a55590996e008fdb4a7519887d53ab2c509495",
            ),
            PublicFile(
                FILES["ml1"],
                2_319_829,
                "1cecc780c2b84c203b805b1f267520ec328d94693ea41da582e578444f2dcf0e",
            ),
            PublicFile(
                FILES["ml2"],
                906_988,
                "6cef1adc8f93c750cf53b831176af27884f2cffbddecf9e9817f90970b0dec61",
            ),
        ),
    ),
}
"""What can be fetched, by name."""


def fetch(
    data: PublicData,
    folder: Path,
    base_url: str | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[PublicFile, bool]]:
    """Download the files that are not here yet; every file, and whether it came now.

    A file is kept only if its length and checksum are right; what was kept before an
    error need not be downloaded again. Progress is bytes of a file so far and in all,
    and its name.

    Raises:
        UsageError: The address is not http(s), or another file is in the way.
        FormatError: What came is not the file that was asked for.
        IreneError: The download failed.
    """
    base = (base_url or data.base_url).rstrip("/")
    taken_apart(base)
    show = progress or (lambda *_: None)
    for file in data.files:
        path = folder / file.name
        downloaded = not _is_here(path, file)
        if downloaded:
            show(0, file.size_bytes, file.name)
            content = _downloaded(f"{base}/{file.name}", file)
            with whole_file(path) as kept:
                kept.write(content)
            show(file.size_bytes, file.size_bytes, file.name)
        yield file, downloaded


def _is_here(path: Path, file: PublicFile) -> bool:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise UsageError(
            f"{path} is another file than the public one; move it away, or choose "
            "another folder"
        )
    return True


def _downloaded(url: str, file: PublicFile) -> bytes:
    """The content of a file, if it is the one that was asked for."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(file.size_bytes + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise IreneError(
            f"cannot download {url}: the server says {error.code} {error.reason}"
        ) from error
    except (http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise IreneError(
            f"cannot download {url}: {reason}; is there a connection? "
            "--base-url names another place with the same files"
        ) from error
    if len(content) < file.size_bytes:
        raise FormatError(
            f"{url} was cut off: {len(content):,} of {file.size_bytes:,} bytes; "
            "nothing of it was kept, try again"
        )
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise FormatError(
            f"{url} is not the file it should be: its SHA-256 is not {file.sha256}; "
            "nothing of it was kept"
        )
    return content
