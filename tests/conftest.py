"""How examples are chosen, groups of tests, and trees of machines that are made up."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from irene.dataset import MeasuredNode, NodeTable, TreeKey
from irene.predict.learning.join import Joiner
from irene.predict.machines.specs.specs_method import measured_rows_j
from irene.predict.machines.specs.specs_model import SpecsModel

HERE = Path(__file__).parent
LONGEST = (
    "browser", "serve", "hostile", "trace/templates/test_templates", "ray",
    "tensorflow", "trace/test_catalogue", "collect/test_folds",
    "account/live/test_compiled",
    "predict/gpu/test_training", "predict/test_specs", "predict/test_calibration",
    "serve-computing", "serve/jobs/test_alone", "collect/test_faults",
    "cli/test_collect", "cli/test_widths", "measure/test_measure", "cli/test_measure",
    "house/test_imports", "house/test_wheel", "account/live/test_ranks",
    "account/live/test_script", "analyse/test_budgets", "test_tutorial_notebook",
)  # fmt: skip
"""Groups that take long: they begin first, and no worker is left alone with one."""
Measure = Callable[[SpecsModel, Sequence[TreeKey]], NodeTable]

if find_spec("torchvision"):  # beside .venv only: scripts/others-requirements.txt
    import torch

    try:
        import_module("torchvision")
    except RuntimeError:  # built for another torch: models of timm use none of its ops
        OPS = torch.library.Library("torchvision", "DEF")
        for op in ("nms", "qnms"):
            OPS.define(f"{op}(Tensor boxes, Tensor scores, float threshold) -> Tensor")

# The same examples every time, however busy the machine is; `make test-random` draws
# more and new ones, and keeps those that fail.
settings.register_profile(
    "steady",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "random", settings.get_profile("steady"), max_examples=200, derandomize=False,
    database=settings.get_profile("default").database, print_blob=True,
)  # fmt: skip
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what tests import: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before names have their group
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of a file together: what they share is made by one worker."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            name = item.path.relative_to(HERE).with_suffix("").as_posix()
            item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=_place)  # in their order otherwise


def _place(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return LONGEST.index(mark.args[0]) if mark.args[0] in LONGEST else len(LONGEST)


def pytest_collection_finish(session: pytest.Session) -> None:
    """See that tests which share a server stay together: xdist tells by the name."""
    if not getattr(session.config.option, "loadgroup", False):
        return
    for item in session.items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None and "@" not in item.nodeid:
            raise pytest.UsageError(
                f"{item.nodeid} is not kept in its group: this pytest does not go with "
                "this pytest-xdist"
            )


@pytest.fixture(scope="session", autouse=True)
def own_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No machine that was learned or added here decides what a test sees.

    Nor does a test wait for who else measures here: locks are in the temporary folder.
    """
    os.environ["IRENE_HOME"] = str(tmp_path_factory.mktemp("irene-home"))
    os.environ.pop("IRENE_HARDWARE", None)
    os.environ.pop("COLUMNS", None)  # workers of a parallel run have one
    # Not below pytest's own, which is too long for the names of sockets.
    with (
        tempfile.TemporaryDirectory(prefix="irene-", ignore_cleanup_errors=True) as own,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(own).chmod(0o755)  # a database runs as a user of its own
        patch.setenv("TMPDIR", own)
        patch.setattr(tempfile, "tempdir", own)
        yield


DECODER = "two-layer-gpt"
NOISE = 0.01


@pytest.fixture(scope="session")
def decoder_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Config of a model that the catalogue does not have."""
    path = tmp_path_factory.mktemp("made-up") / f"{DECODER}.json"
    fields = {"model_type": "gpt2", "n_layer": 2, "architectures": ["GPT2Model"]}
    path.write_text(json.dumps(fields))
    return path


@pytest.fixture(scope="session")
def made_up_joiner(decoder_config: Path) -> Joiner:
    """Remembers the traces of all tests of a worker."""
    return Joiner(configs={DECODER: str(decoder_config)})


@pytest.fixture(scope="session")
def made_up_keys() -> list[TreeKey]:
    """An encoder and a decoder of two layers at six sizes, 256 to 4,096 tokens."""
    sizes = ((4, 64), (8, 64), (8, 128), (12, 160), (16, 192), (16, 256))
    models = ("bert-l2-h768", DECODER)
    return [TreeKey(model, *size) for size in sizes for model in models]


@pytest.fixture(scope="session")
def measure(made_up_joiner: Joiner) -> Measure:
    """Trees as a machine of known rates would be measured, with 1 % noise."""

    def measured(model: SpecsModel, keys: Sequence[TreeKey]) -> NodeTable:
        trees = [(key, _nodes(made_up_joiner, key)) for key in keys]
        table = NodeTable.from_trees("made-up", trees)
        energy_j = measured_rows_j(model, table, made_up_joiner)
        # Equal nodes are measured once.
        distinct, which = np.unique(energy_j.round(12), return_inverse=True)
        noise = np.random.default_rng(0).normal(0, NOISE, len(distinct))
        return replace(table, energy_j=energy_j * np.exp(noise[which]))

    return measured


def _nodes(joiner: Joiner, key: TreeKey) -> list[MeasuredNode]:
    """The nodes of a trace that do something, as a profiler would name them."""
    traced = joiner._trace(key)
    assert traced is not None, joiner.unknown
    tree, work, _ = traced
    rows: dict[int, int] = {}
    nodes: list[MeasuredNode] = []
    for node in tree.nodes():
        is_kernel = node.kind == "ml" and work.counts[node.row].sum() == 1
        if not (node.kind in ("model", "module") or is_kernel):
            continue
        parent = -1 if node.parent is None else rows[node.parent.row]
        rows[node.row] = len(nodes)
        nodes.append(MeasuredNode(node.path, node.kind, node.op, 1.0, {}, parent))
    return nodes
