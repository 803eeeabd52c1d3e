"""Anything that tells watts as JSON over HTTP: smart plugs, Home Assistant, Redfish.

A meter is named by its address, and after `#` where in the answer the power is:
`http://192.168.1.7/rpc/Switch.GetStatus?id=0#apower`. Plugs and boards that are known
need no `#`. After it there may also be options:
`#path=apower&unit=W&every_s=0.5&error_percent=1`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from irene.errors import MeterError, UsageError
from irene.meters.channel import Channel, PolledMeter
from irene.meters.energy_counter import GrowingCounter
from irene.parameters import read

TOKEN = "IRENE_METER_TOKEN"
LONGEST_ANSWER = 1 << 24
"""Bytes; a server of many engines has megabytes of metrics."""
PATIENCE_S = 5.0
POWERS = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
ENERGIES = {"J": 1.0, "Wh": 3600.0, "kWh": 3.6e6, "Wmin": 60.0}
KNOWN = (
    ("apower", "W"),  # Shelly, second generation and later: Switch.GetStatus
    ("meters[0].power", "W"),  # Shelly, first generation: /status
    ("emeters[0].power", "W"),
    ("StatusSNS.ENERGY.Power", "W"),  # Tasmota: /cm?cmnd=Status%208
    ("active_power_w", "W"),  # HomeWizard: /api/v1/data
    ("PowerControl[0].PowerConsumedWatts", "W"),  # Redfish: /Chassis/…/Power
    ("PowerWatts.Reading", "W"),  # Redfish: /Chassis/…/EnvironmentMetrics
)
"""Where well-known devices tell their power, and its unit."""
STATE, UNIT = "state", "attributes.unit_of_measurement"
"""Home Assistant: /api/states/sensor.…, with its unit beside it."""
PLUG_ERROR_PERCENT = 2.0
GUESSED = "the error of the device is a guess: give error_percent"
STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class HttpSource:
    """Where a meter answers, and how it is read.

    Attributes:
        url: Its address, http or https.
        path: Where the value is in the answer, as in `meters[0].power`; "" to look at
            the places that are known.
        unit: `W`, `mW`, `kW`, or of a counter `J`, `Wh`, `kWh`, `Wmin`.
        every_s: Time between two questions, s.
        error_percent: Half its 90 % interval, % of the value.
        covers: What it covers.
        device: Device as torch names it, or "".
        insecure: 1 to accept any certificate, as BMCs have them.
    """

    url: str
    path: str = ""
    unit: str = ""
    every_s: float = 1.0
    error_percent: float = PLUG_ERROR_PERCENT
    covers: str = "wall"
    device: str = ""
    insecure: int = 0

    def __post_init__(self) -> None:
        if self.unit and self.unit not in {*POWERS, *ENERGIES}:
            units = ", ".join((*POWERS, *ENERGIES))
            raise UsageError(f"no unit {self.unit!r}: it is one of {units}")
        if not 0 < self.every_s < 3600 or not 0 <= self.error_percent < 100:
            raise UsageError(f"impossible values in {self.host}: {self}")

    @property
    def host(self) -> str:
        """Name of the machine that answers, without what is secret."""
        return _host(urlsplit(self.url))

    @classmethod
    def parse(cls, text: str) -> HttpSource:
        """Read an address with what stands after its `#`."""
        url, _, words = text.partition("#")
        taken_apart(url)
        given = parse_qsl(words) if "=" in words else [("path", unquote(words))]
        return read(cls, {"url": url, **dict(given)})


def open_http(source: HttpSource | str) -> PolledMeter:
    """Ask a meter once, and go on asking it."""
    source = HttpSource.parse(source) if isinstance(source, str) else source
    path, unit = _where(source, _document(source))
    counts = unit in ENERGIES
    size = ENERGIES[unit] if counts else POWERS[unit]
    counter = GrowingCounter(size)

    def fetch() -> list[float]:
        value = _number(_document(source), path)
        return [counter.joules(value) if counts else value * size]

    note = f"{path} of {source.host}; a reading holds until the next"
    if source.error_percent == PLUG_ERROR_PERCENT:
        note += f"; {GUESSED}"
    channel = Channel(
        f"http:{source.host}:{'energy' if counts else 'power'}",
        "energy_j" if counts else "power_w",
        covers=source.covers,
        device=source.device,
        resolution_s=source.every_s,
        relative_error=source.error_percent / 100,
        note=note.replace(",", ";").replace('"', ""),
    )
    return PolledMeter("http", [channel], fetch, source.every_s)


def taken_apart(url: str) -> SplitResult:
    """The parts of an address of http or https."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or " " in url or not url.isprintable():
        raise UsageError(f"{url!r} is no address: write http://HOST:PORT")
    return parts


def _host(parts: SplitResult) -> str:
    return f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"


def fetched(url: str, insecure: bool = False) -> bytes:
    """What an address answers, with the user of the address or `IRENE_METER_TOKEN`.

    These are for that address alone: where it sends us on to, nobody is told them.

    Raises:
        UsageError: It is no address.
        MeterError: Nothing answers, or it refuses; the message holds no password.
    """
    parts = taken_apart(url)
    host = _host(parts)
    request = Request(urlunsplit(parts._replace(netloc=host)))
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        word = base64.b64encode(pair.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {word}")
    elif os.environ.get(TOKEN):
        bearer = f"Bearer {os.environ[TOKEN]}"
        request.add_unredirected_header("Authorization", bearer)
    context = ssl._create_unverified_context() if insecure else None
    try:
        with urlopen(request, timeout=PATIENCE_S, context=context) as answer:
            body: bytes = answer.read(LONGEST_ANSWER + 1)
    except HTTPError as error:
        error.close()
        remedy = f"set {TOKEN}, or write USER:PASSWORD@ before the host"
        refused = error.code in (401, 403)
        raise MeterError(
            f"{host} answers {error.code} {error.reason}", remedy if refused else ""
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise MeterError(f"nothing answers at {host}: {reason}") from error
    if len(body) > LONGEST_ANSWER:
        raise MeterError(f"{host} answers more than {LONGEST_ANSWER} bytes")
    return body


def _document(source: HttpSource) -> Any:
    try:
        return json.loads(fetched(source.url, bool(source.insecure)))
    except ValueError as error:
        raise MeterError(f"{source.host} does not answer in JSON: {error}") from error


def _where(source: HttpSource, document: Any) -> tuple[str, str]:
    """The place of the value in an answer and its unit."""
    unit = source.unit or _at(document, UNIT) or "W"
    if source.path:
        _number(document, source.path)
        return source.path, _checked(str(unit))
    if _at(document, STATE) is not None:
        return STATE, _checked(str(unit))
    for path, usual in KNOWN:
        if _at(document, path) is not None:
            return path, source.unit or usual
    names = ", ".join(list(document)[:8]) if isinstance(document, dict) else "a list"
    raise MeterError(
        f"no known place of power in what {source.host} answers ({names})",
        "write where it is after the address: #meters[0].power",
    )


def _checked(unit: str) -> str:
    if unit not in {*POWERS, *ENERGIES}:
        units = ", ".join((*POWERS, *ENERGIES))
        raise MeterError(
            f"{unit!r} is no unit of power or energy", f"it is one of {units}"
        )
    return unit


def _at(document: Any, path: str) -> Any:
    """What is at a place, or None."""
    for name, index in STEP.findall(path):
        try:
            document = document[int(index) if index else name]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _number(document: Any, path: str) -> float:
    value = _at(document, path)
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise MeterError(f"no number at {path!r}: {value!r}") from error
