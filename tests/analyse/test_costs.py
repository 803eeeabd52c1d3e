"""Costs follow from joules, and scale with what they are counted for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.analyse.costs import CostTerms, regions
from irene.analyse.costs import cost_of as cost_of_terms
from irene.errors import UsageError
from irene.spec import RunSpec
from irene.tree import TreeBuilder

from ..made_up import tree_of_own
from .made_trees import trees


def cost_of(tree, **terms):
    return cost_of_terms(tree, CostTerms(**terms))


def line(found, name):
    return next(each for each in found.lines if each.name == name)


def tree_of_16():
    tree = tree_of_own()
    return tree.with_spec(RunSpec("made-up", batch_size=16))


def test_a_million_requests_by_hand():
    """10 J per batch of 16: 0.625 J per request, 0.1736 kWh per million."""
    found = cost_of(tree_of_16(), price_per_kwh=0.5, region="DE", pue=1.2)
    million = line(found, "million requests")
    assert found.per_query.joules == pytest.approx(0.625)
    assert million.kwh == pytest.approx(0.625 * 1.2 / 3.6)
    assert million.kwh_low == pytest.approx(0.9 * million.kwh)
    assert million.kwh_high == pytest.approx(1.1 * million.kwh)
    assert million.money == pytest.approx(0.5 * million.kwh)
    assert million.kg_co2e == pytest.approx(0.34414 * million.kwh)


@settings(max_examples=30)
@given(trees(), st.floats(1, 1e9), st.floats(1, 3), st.floats(1.5, 50))
def test_costs_scale_linearly(tree, requests, pue, factor):
    chosen = {"price_per_kwh": 0.13, "region": "FR"}
    base = cost_of(tree, requests=requests, per_day=requests, pue=pue, **chosen)
    more = cost_of(
        tree, requests=requests * factor, per_day=requests * factor, pue=pue, **chosen
    )
    for name in ("day", "year"):
        small, large = line(base, name), line(more, name)
        for field in ("kwh", "kwh_low", "kwh_high", "money", "kg_co2e"):
            assert getattr(large, field) == pytest.approx(
                factor * getattr(small, field)
            )
    assert line(base, "request").kwh == pytest.approx(line(more, "request").kwh)
    wasteful = cost_of(tree, requests=requests, pue=2 * pue, **chosen)
    assert line(wasteful, "request").kwh == pytest.approx(2 * line(base, "request").kwh)


def test_a_year_is_its_days():
    found = cost_of(tree_of_16(), per_day=1000)
    assert line(found, "year").kwh == pytest.approx(365.25 * line(found, "day").kwh)
    assert line(found, "year").money is None
    assert found.region.code == "WORLD"


def test_money_has_a_currency():
    found = cost_of(tree_of_16(), price_per_kwh=0.3, currency="eur")
    assert found.to_dict()["currency"] == "EUR"
    with pytest.raises(UsageError, match="currency"):
        CostTerms(price_per_kwh=0.3, currency="12")


def test_every_region_has_year_and_source():
    assert 15 <= len(regions()) <= 40
    for region in regions().values():
        assert 10 < region.gco2e_per_kwh < 900
        assert region.year >= 2023
        assert "Ember" in region.source
    assert regions()["FR"].gco2e_per_kwh < regions()["DE"].gco2e_per_kwh


def test_a_region_by_name_and_an_own_intensity():
    assert cost_of(tree_of_16(), region="germany").region.code == "DE"
    found = cost_of(tree_of_16(), gco2e_per_kwh=50)
    assert line(found, "request").kg_co2e == pytest.approx(
        0.05 * line(found, "request").kwh
    )


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"region": "Germny"}, "no region 'Germny'; did you mean DE.*There are AT, AU"),
        ({"region": "XX"}, "no region 'XX'.*gco2e_per_kwh"),
        ({"requests": -1}, "requests must be at least 0, got -1"),
        ({"requests": float("inf")}, "requests must be"),
        ({"per_day": float("nan")}, "per_day must be"),
        ({"price_per_kwh": -0.1}, "price_per_kwh must be"),
        ({"pue": 0.9}, "pue must be at least 1, got 0.9"),
    ],
)
def test_wrong_numbers_get_one_clear_message(chosen, said):
    with pytest.raises(UsageError, match=said):
        cost_of(tree_of_16(), **chosen)


def test_a_tree_without_energy_costs_nothing_known():
    builder = TreeBuilder()
    builder.add(-1, "", "model", "Model")
    with pytest.raises(UsageError, match="carries no energy"):
        cost_of(builder.build())
