"""AMD GPUs, through a module that answers as `amdsmi` does."""

import sys
from types import SimpleNamespace

import pytest

from irene.errors import MeterError
from irene.meters.channel import probed
from irene.meters.gpu.amd_smi import open_amdsmi


@pytest.fixture
def library(monkeypatch):
    counts = {"big": 1_000_000, "old": None}

    def energy(handle):
        if counts[handle] is None:
            raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
        return {
            "energy_accumulator": counts[handle],
            "counter_resolution": 15.3,
            "timestamp": 1,
        }

    made = SimpleNamespace(
        counts=counts,
        ended=0,
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: list(counts),
        amdsmi_get_energy_count=energy,
        amdsmi_get_gpu_asic_info=lambda handle: {"market_name": f"MI250 {handle}"},
        amdsmi_get_power_info=lambda handle: {
            "current_socket_power": "N/A",
            "average_socket_power": 88,
        },
    )
    made.amdsmi_shut_down = lambda: setattr(made, "ended", made.ended + 1)
    monkeypatch.setitem(sys.modules, "amdsmi", made)
    return made


def test_energy_where_it_is_counted_else_power(library):
    meter = open_amdsmi()
    names = [(c.name, c.device, c.quantity) for c in meter.channels]
    assert names == [
        ("amdsmi:0:energy", "cuda:0", "energy_j"),
        ("amdsmi:1:power", "cuda:1", "power_w"),
    ]
    before, _ = meter.read()
    library.counts["big"] += 2_000_000
    after, power_w = meter.read()
    assert after - before == pytest.approx(30.6)
    assert power_w == 88.0
    meter.close()
    meter.close()
    assert library.ended == 1


def test_cards_that_the_program_sees_are_numbered_as_it_does(library, monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1,0")
    meter = open_amdsmi()
    assert [c.name for c in meter.channels] == ["amdsmi:0:power", "amdsmi:1:energy"]
    assert all("both chiplets" in c.note for c in meter.channels)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "GPU-1234")
    assert "must be numbers" in probed("amdsmi", open_amdsmi).remedy


def test_without_cards_it_is_said(library):
    library.counts.clear()
    with pytest.raises(MeterError, match="none of 0"):
        open_amdsmi()
    library.amdsmi_init = lambda: 1 / 0
    assert "amd-smi list" in probed("amdsmi", open_amdsmi).remedy
