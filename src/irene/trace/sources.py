"""From a name or a path to the fields of a config; needs no torch."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from irene.errors import ConfigError, IreneError, UnknownModelError
from irene.trace import catalogue
from irene.trace.limits import Limits
from irene.trace.model_files import is_model_file, read_model_file
from irene.whole_file import trying_to

if TYPE_CHECKING:
    from transformers import PretrainedConfig

HOW_TO_GIVE_A_CONFIG = (
    "give the path of a config.json, or see `irene models` for the names we know"
)
HUB_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Source:
    """Where a config is.

    Attributes:
        name: What to call the model.
        origin: Where the config comes from, in words.
        path: The config file, if it is one.
        entry: The catalogue entry, if it is one.
        fields: The config itself, if it was given.
        changes: Other values of fields, by name.
    """

    name: str
    origin: str
    path: Path | None = None
    entry: catalogue.Entry | None = None
    fields: Mapping[str, Any] | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usual_class(self) -> str | None:
        """Class that builds a model of the catalogue."""
        return self.entry.auto_class if self.entry else None

    def read(self, limits: Limits) -> Mapping[str, Any]:
        """The fields of the config.

        Raises:
            ConfigError: The file cannot be read or is not a JSON object.
            UnknownModelError: The hub has no such model, or cannot be reached.
        """
        if self.fields is not None:
            return self.fields
        if self.entry is not None:
            return self.entry.config
        if self.path is not None and is_model_file(self.path):
            return read_model_file(self.path)
        if self.path is not None:
            return _read_file(self.path, limits)
        return _read_file(_download(self.name), limits)


@dataclass(frozen=True, slots=True)
class Changed:
    """A model with other values in its config, which is made when it is needed.

    Attributes:
        model: Catalogue name, Hugging Face id or path of a config.json.
        changes: Other values, by the fields' own names.
        fields: The config as it would be published; refuses changes that cannot be.
        make: Makes the config of transformers.
    """

    model: str
    changes: Mapping[str, Any]
    fields: Callable[[], Mapping[str, Any]]
    make: Callable[[], PretrainedConfig]


@dataclass(frozen=True, slots=True)
class _Known:
    """What a name may mean while files do not count."""

    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hub: bool = False


_KNOWN: ContextVar[_Known | None] = ContextVar("known", default=None)


@contextmanager
def only_known(
    configs: Mapping[str, Mapping[str, Any]], *, hub: bool = False
) -> Iterator[None]:
    """Within it a model is a name and never a file, so that strangers may ask.

    Args:
        configs: Fields of configs by the names that mean them here.
        hub: Whether models of the hub count.
    """
    token = _KNOWN.set(_Known(configs, hub))
    try:
        yield
    finally:
        _KNOWN.reset(token)


def files_count() -> bool:
    """Whether the name of a model may be the path of a file."""
    return _KNOWN.get() is None


def locate(model: str | Path) -> Source:
    """Find out whether a file, a catalogue entry or a hub model is meant.

    A file goes before a catalogue name; the hub is asked only for `owner/name`. See
    `only_known` for names of strangers.

    Raises:
        UnknownModelError: Nothing answers to that name; the message has the nearest.
    """
    known, name = _KNOWN.get(), str(model)
    path = _config_path(model) if known is None else None
    if path is not None:
        with trying_to("read", path, ConfigError):  # before anything heavy is loaded
            path.open("rb").close()
        return Source(name, str(path), path=path)
    if known is not None and name in known.configs:
        return Source(name, "a config that was given", fields=known.configs[name])
    entry = catalogue.find(name)
    if entry is not None:
        return Source(entry.name, f"catalogue, from {entry.source}", entry=entry)
    if known is not None and not known.hub:
        near = ", ".join(catalogue.nearest(name))
        hint = f"; did you mean {near}?" if near else ""
        raise UnknownModelError(f"unknown model {name[:100]!r}{hint}")
    if name.count("/") != 1 or not name.isprintable() or " " in name:
        raise UnknownModelError(f"unknown model {name!r}{_advice(name)}")
    return Source(name, "Hugging Face hub")


def config_key(source: Source) -> str:
    """Digest of a config, as it is published, and of the class usually built."""
    entry = source.entry
    if entry is not None and entry is catalogue.entries().get(entry.name):
        return _entry_key(entry.name)
    fields = entry.config if entry else source.fields
    assert fields is not None
    return config_digest(source.usual_class, fields)


@cache
def _entry_key(name: str) -> str:
    entry = catalogue.entries()[name]
    return config_digest(entry.auto_class, entry.config)


def config_digest(built_as: str | None, fields: Mapping[str, Any]) -> str:
    """16 hex digits of a config and of the class that is built."""
    plain = {k: v for k, v in fields.items() if k not in VOLATILE}
    text = json.dumps([built_as, plain], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


VOLATILE = ("transformers_version", "_name_or_path")


def _config_path(model: str | Path) -> Path | None:
    """Path of the config file that is meant, None if a name is meant."""
    path = Path(model)
    is_named_so = str(model).endswith(".json") or is_model_file(path)
    looks_like_path = isinstance(model, Path) or is_named_so
    try:
        if path.is_dir() and (path / "config.json").is_file():
            return path / "config.json"
        return path if looks_like_path or path.is_file() else None
    except (OSError, ValueError):  # too long for a path, or a NUL in it
        return None


def _read_file(path: Path, limits: Limits) -> Mapping[str, Any]:
    with trying_to("read", path, ConfigError):
        size = path.stat().st_size
        if size > limits.config_bytes:
            raise ConfigError(
                f"{path} has {size:,} bytes, more than a config's "
                f"{limits.config_bytes:,}: is it the weights?"
            )
        text = path.read_bytes()
    try:
        fields = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        kind = type(fields).__name__
        raise ConfigError(f"{path} is not a config: it holds a {kind}, not an object")
    return fields


def _download(name: str) -> Path:
    """The config of a hub model: from the local cache if the hub is out of reach."""
    from huggingface_hub import hf_hub_download

    offline = not _hub_answers()
    try:
        with quiet():
            return Path(
                hf_hub_download(
                    name,
                    "config.json",
                    local_files_only=offline,
                    etag_timeout=HUB_TIMEOUT_S,
                )
            )
    except Exception as error:
        why = "the hub cannot be reached from here" if offline else short(error)
        raise UnknownModelError(
            f"unknown model {name!r}: not in the catalogue, and {why}{_advice(name)}"
        ) from error


def _hub_answers() -> bool:
    """Whether the hub, or the proxy on the way to it, takes connections."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    address = urlparse(proxy or constants.ENDPOINT)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), HUB_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _advice(name: str) -> str:
    near = catalogue.nearest(name)
    if not near:
        return f": {HOW_TO_GIVE_A_CONFIG}"
    return f"; did you mean {', '.join(near)}? Or {HOW_TO_GIVE_A_CONFIG}"


def short(error: BaseException) -> str:
    """An error in one line of readable length, with its kind if it is not ours."""
    text = " ".join(str(error).split())
    kind = "" if isinstance(error, IreneError) else f"{type(error).__name__}: "
    return f"{kind}{text}"[:300]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the advice of the libraries below us off the screen."""
    loggers = [logging.getLogger(n) for n in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
