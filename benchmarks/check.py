"""Random changes of configs and code: does `irene check` see them, at the right node?

python -m benchmarks.check [CHANGES]

Every change is made to a small config or a small model's code, and judged as
`irene check --base` judges it, in the bounded child. Of each it is known which nodes do
other work afterwards. Peer: the change of the total alone, as a measurement on a
runner with 1 % noise sees it (three standard deviations).
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from irene.analyse.budgets import ELSEWHERE, Budget, judged
from irene.analyse.project import predicted_in
from irene.parameters import read

LEAST_PERCENT = 0.1
RUNNER_PERCENT = 3.0
BERT: dict[str, Any] = {
    "model_type": "bert", "hidden_size": 96, "intermediate_size": 256,
    "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 2000,
    "architectures": ["BertModel"],
}  # fmt: skip
GPT: dict[str, Any] = {
    "model_type": "gpt2", "n_embd": 96, "n_layer": 3, "n_head": 4, "vocab_size": 2000,
    "architectures": ["GPT2LMHeadModel"],
}  # fmt: skip
CODE = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, width)
        self.act = nn.GELU()
        self.down = nn.Linear(width, 64)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def make():
    return Model(), torch.zeros(4, 32, 64)
"""
USUAL = {"WIDTH": "128", "LAYERS": "4", "CLASSES": "10"}
Change = tuple[str, str, str, tuple[str, ...]]
"""What it is, the file before and after, nodes that may change."""


def config_change(draw: random.Random) -> Change:
    """A changed field of a config; fields that no op depends on among them."""
    kind, field, value, nodes = draw.choice([
        (BERT, "intermediate_size", draw.randrange(257, 400), ("intermed", "output")),
        (BERT, "num_hidden_layers", draw.choice([2, 4, 5]), ("encoder.layer",)),
        (BERT, "num_attention_heads", draw.choice([2, 3, 6, 8]), ("attention",)),
        (BERT, "hidden_act", draw.choice(["relu", "silu"]), ("intermediate",)),
        (BERT, "layer_norm_eps", draw.choice([1e-5, 1e-6]), ()),
        (BERT, "max_position_embeddings", draw.randrange(513, 900), ()),
        (BERT, "hidden_dropout_prob", draw.random() / 2, ()),
        (GPT, "vocab_size", draw.randrange(2100, 4000), ("lm_head",)),
        (GPT, "n_inner", draw.randrange(400, 600), ("mlp",)),
        (GPT, "n_layer", draw.choice([2, 4, 5]), ("transformer.h",)),
        (GPT, "activation_function", draw.choice(["relu", "silu"]), ("mlp",)),
        (GPT, "initializer_range", draw.random(), ()),
    ])  # fmt: skip
    after = {**kind, field: value}
    return f"{field}={value}", json.dumps(kind), json.dumps(after), nodes


def code_change(draw: random.Random) -> Change:
    """A changed line of a model's code; changes that change no op among them."""
    block = str(draw.randrange(4))
    wide = f"{draw.randrange(129, 300)} if _ == {block} else WIDTH"
    old, new, nodes = draw.choice([
        ("WIDTH", str(draw.randrange(129, 300)), ("blocks",)),
        ("Block(WIDTH)", f"Block({wide})", (f"blocks.{block}",)),
        ("LAYERS", draw.choice(["3", "5", "6"]), ("blocks",)),
        ("CLASSES", str(draw.randrange(500, 900)), ("head",)),
        ("nn.GELU()", draw.choice(["nn.ReLU()", "nn.Tanh()"]), ("blocks",)),
        ("nn.LayerNorm(64)", "nn.Identity()", ("blocks",)),
        ("x.mean(1)", "torch.relu(x).mean(1)", ("",)),
        ("return x + self", "return x * 1.5 + self", ("blocks",)),
        ("width", draw.choice(["wide", "inner"]), ()),
        ("nn.GELU()", "nn.GELU()  # as before", ()),
    ])  # fmt: skip
    before, after = CODE, CODE.replace(old, new)
    for name, value in USUAL.items():
        before, after = before.replace(name, value), after.replace(name, value)
    return f"{old} -> {new}", before, after, nodes


def main(count: int = 200, seed: int = 0) -> None:
    """Draw changes, judge them, and print what was seen, missed and invented."""
    draw = random.Random(seed)
    changes = [draw.choice([config_change, code_change])(draw) for _ in range(count)]
    with tempfile.TemporaryDirectory() as made:
        budgets = []
        for number, (_, *texts, _) in enumerate(changes):
            for side, text in zip(("before", "after"), texts, strict=True):
                name = f"{side}_{number}"
                is_config = text.startswith("{")
                file = Path(made) / f"{name}.{'json' if is_config else 'py'}"
                file.write_text(text)
                model = file.name if is_config else f"{name}:make"
                values = {"model": model, "batch_size": 4, "seq_len": 32}
                values = values if is_config else {"model": model}
                budgets.append(read(Budget, {**values, "max_j_per_sequence": 1e9}))
        runs = [(budget.run, budget.on) for budget in budgets]
        trees = predicted_in(Path(made), runs, 600.0)
    report(changes, budgets, trees)


def report(changes: list[Change], budgets: list[Budget], trees: list[Any]) -> None:
    """Count, and print every one that went wrong."""
    real = seen = quiet = invented = wrong = runner = 0
    for number, (words, _, _, nodes) in enumerate(changes):
        before, after = trees[2 * number : 2 * number + 2]
        row = judged(budgets[2 * number], after, before)
        if row.problem or row.base_problem:
            raise SystemExit(f"{words}: {row.problem or row.base_problem}")
        percent = abs(row.change_percent or 0.0)
        found = [name for name, _ in row.changes if name != ELSEWHERE]
        if not nodes:
            quiet += 1
            invented += bool(row.changes)
        elif percent >= LEAST_PERCENT:
            real += 1
            seen += bool(found)
            runner += percent >= RUNNER_PERCENT
        outside = [n for n in found if not any(_within(n, each) for each in nodes)]
        wrong += bool(outside)
        if outside or (nodes and not found) or (not nodes and row.changes):
            print(f"{words}: {percent:.3f} %, {found}")
    print(f"{len(changes)} changes, {real} of at least {LEAST_PERCENT} %")
    print(f"seen with a node: {seen}, at another node: {wrong}")
    print(f"{quiet} that change no op, invented: {invented}")
    print(f"peer, the total on a runner with 1 % noise: {runner} seen")
    print(f"ratio: {seen / max(runner, 1):.2f}")


def _within(node: str, expected: str) -> bool:
    """Whether a node is below one that may change; above it, as a sum, too."""
    return expected in node.replace(".*", "") or node.replace(".*", "") in expected


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
