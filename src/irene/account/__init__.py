"""Accounting: events of a running program × power samples → a ledger of energy.

`irene.account`, the function that records, is `record` of `live`.

- `live`: `record` and scripts, for programs that run; `callbacks`: for trainers.
- `events`: `Events`, what ran, as columns; `EventsBuilder` collects them.
- `align`: which event is inside which; `PowerSeries`, the power of a device; exact
  energy of every event; `attribute`, all series together, checked to the last joule.
- `ledger`: `Ledger` and its views, as tree, JSON, CSV, Parquet and Perfetto trace.
- `readers`: recorded traces and power: Kineto, TensorFlow, JAX, TensorFlow 1.
- `served`: inference servers that run: energy per token and request.
- `studies`: questions that take many ledgers; `irene study`.
"""

from typing import TYPE_CHECKING

from irene.account.align.attribution import ConservationError, Split, attribute
from irene.account.align.power import PowerSeries
from irene.account.events import PHASES, Coded, Events, EventsBuilder
from irene.account.ledger.ledger import Ledger
from irene.account.ledger.rows import ChannelAccount, ModuleRow, RestRow, Row, Spread
from irene.lazy import lazily

if TYPE_CHECKING:
    from irene.account.live.ranks import merge_folder
    from irene.account.live.session import record

__all__ = [
    "PHASES",
    "ChannelAccount",
    "Coded",
    "ConservationError",
    "Events",
    "EventsBuilder",
    "Ledger",
    "ModuleRow",
    "PowerSeries",
    "RestRow",
    "Row",
    "Split",
    "Spread",
    "attribute",
    "merge_folder",
    "record",
]

__getattr__ = lazily(__name__)
