"""Machines that run one op after the other: CPUs, as PyTorch uses them.

Nothing overlaps there, so a node takes what its ops take and what calling them costs.

- `leaves`: what a tree makes such a machine do.
- `ops`: energy of single ops, one model per kind.
- `model`: `SerialModel`, a machine.
"""

from irene.predict.machines.serial.leaves import Leaf, SerialWork, serial_work
from irene.predict.machines.serial.model import SerialModel, fit_serial

__all__ = ["Leaf", "SerialModel", "SerialWork", "fit_serial", "serial_work"]
