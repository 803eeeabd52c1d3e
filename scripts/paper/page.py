"""The page docs/explanation/results.md, put together from its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.accuracy import Row
from scripts.paper import error_tables as errors
from scripts.paper import published
from scripts.paper.energy_shares import (
    Branch,
    figure_5_table,
    share_distances,
    share_tables,
)
from scripts.paper.figures import BATCH, LENGTH, Miniature, model_errors
from scripts.paper.held_out import SEEDS, HeldOut, of_kind, of_model
from scripts.paper.markdown import markdown_table, number
from scripts.paper.own_methods import coverage_table, split_table

from irene.dataset import NodeTable
from irene.predict.intervals import COVERAGE


@dataclass(frozen=True)
class Results:
    """All that the page is made of.

    Attributes:
        table: Measured trees.
        predictions: Of every node, its model held out, by method.
        rows: Errors of every method on every split.
        covered: How often intervals hold, by model and level.
        branches: Figure 5.
        miniatures: Figure 4.
        measured_base_j: bert-base at the size of Figure 4, measured, J.
        date: When it was computed.
    """

    table: NodeTable
    predictions: Mapping[str, HeldOut]
    rows: Sequence[Row]
    covered: Mapping[str, Mapping[str, float]]
    branches: Sequence[Branch]
    miniatures: Sequence[Miniature]
    measured_base_j: float
    date: str


def page(results: Results) -> str:
    """The whole page as Markdown."""
    parts = [
        _head(results),
        _trees(results),
        _errors(results),
        _features(results),
        _shares(results),
        _pictures(results),
        _own(results),
        _validity(),
    ]
    return "\n\n".join(parts) + "\n"


def _head(results: Results) -> str:
    table = results.table
    return f"""# Results

The tables and figures of the IrEne paper (Cao et al., ACL 2021) beside what `irene`
computes from the data that its authors published, then our own methods on harder
questions. `make paper` wrote this page on {results.date}; it needs the data of PC1
(`irene data fetch irene-2021`, or `IRENE_DATA_DIR`), which is not part of the project.

- The data: {len(table.keys)} trees of {len(table.models)} transformers on one desktop,
  {len(table):,} nodes, each with the energy that a wall meter saw.
- An error is 100·|predicted − measured| / measured, in percent. Unless a table says
  otherwise the model that is predicted was held out, and the mean is over nodes, as in
  the paper.
- Where learning starts from random weights, ours is the mean of {len(SEEDS)} seeds, and
  a column shows the best and the worst of them.
- One difference is known beforehand: the published program also sees the number of
  parameters of every node, which the files of the data do not hold.
- Only PC1 is compared: the data used here is of that machine, and without data of PC2
  its columns cannot be computed. Table 3 of the paper is about cost, not accuracy, and
  is not covered."""


def _trees(results: Results) -> str:
    return f"""## Table 4: trees

{errors.table_4(results.table)}

Depth counts nodes from the model to a primitive; a dash stands where we have no
published number. One tree of `openai-gpt` has no measurement of the whole model in the
data and is left out."""


def _errors(results: Results) -> str:
    found = results.predictions
    ours = found["utilisation"]
    models = of_kind(ours.table, "model")
    ratio = float(np.mean(ours.energy_j[0][models] / ours.table.energy_j[models]))
    return f"""## Table 5: whole models

{errors.table_5(found)}

`irene`: chance moves the errors of BERT-like models by several points, and the paper's
lie within. For `distilgpt2` and `openai-gpt` the paper's are up to one point below all
our seeds; the missing number of parameters may be why. `utilisation` is the software
estimate of Strubell et al. (2019). It is {100 * (ratio - 1):.0f} % too high here,
nearly all of it the factor of 1.58 for the overhead of a data centre that a desktop
does not have. The paper's is higher still; which power of processor and memory it put
in cannot be seen from the data, we put in data-sheet values. Its average is not the
mean of its six numbers, which is 59.5.

## Table 6: modules

{errors.table_6(found)}

All within 0.3 points. GPT-like models are worse because their primitives hold less of
the energy: activations, residuals and copies belong to no primitive, and a parent can
add at most a tenth per level.

## Table 7: primitives

{errors.table_7(found)}

The leaves involve no chance; what differs does so in the second digit.

## Table 11: modules, software estimate

{errors.table_11(found)}

Not reproduced. The paper's figures go from 13 to 63 % between models that share most of
their modules. With the times, loads and GPU energies of the data the estimate is off by
the same factor everywhere. Where the paper's spread comes from cannot be seen from the
data; presumably from power counters that were read while each module ran. The paper's
average is over models."""


def _features(results: Results) -> str:
    found = results.predictions
    unstructured = found["unstructured"]
    primitives = of_kind(results.table, "ml")
    by_model = [
        (model, unstructured.mean(primitives & of_model(results.table, model)))
        for model in published.MODELS
    ]
    worst, percent = max(by_model, key=lambda pair: pair[1])
    return f"""## Table 8: features

Seeds: errors of whole models.

{errors.table_8(found)}

Without resource features ours are a little better than the paper's at every level. The
number of parameters, which we lack, is one of the few features left in that row, so
this is where its absence should show most. In the other rows the paper's lie within the
seeds or next to them.

## Table 9: aggregation

Seeds: errors of whole models.

{errors.table_9(found)}

PredictedSum involves no chance and agrees to 0.02 points; stepwise agrees within the
seeds. The unstructured regressor is not reproduced: the paper's learns by eight epochs
of Adam on 680 products of features, ours by least squares on the same products, which
gets modules right to half a percent. So the published figure says more about the
optimiser than about structure. Ours is no better idea for it: every node's own time and
GPU energy are among its features, so it converts units rather than predicts, and it
fails at what it has not seen (primitives of `{worst}`: {percent:.0f} %; see the other
splits [below](#our-own-methods-and-harder-questions))."""


def _shares(results: Results) -> str:
    from_irene, from_measured = share_distances(results.table, results.predictions)
    return f"""## Tables 10 and 12: where the energy goes

Share of energy by module that is a parent of primitives, %, mean over sizes. Primitives
that stand beside modules are listed by themselves.

{share_tables(results.table, results.predictions)}

The published shares follow what `irene` predicts rather than what was measured: on
average they are {from_irene:.1f} points from the one and {from_measured:.1f} from the
other, and small rows (embeddings, GPT's LayerNorm) nearly equal the predicted. `irene`
gives too little to BERT's self-attention, whose masks, copies and scalings are no
primitives. `bert-base` and `roberta-base` are the same network above the embeddings and
were measured to the same shares; the paper's differ by up to three points between them,
which neither the measurements nor our predictions show (seeds move these shares by a
tenth of a point), and we have no explanation. For `distilgpt2` the paper prints
DistilBERT's module names; they are matched by role here."""


def _pictures(results: Results) -> str:
    return "\n\n".join([_figure_3(results), _figure_4(results), _figure_5(results)])


def _figure_3(results: Results) -> str:
    rows = [["paper's `irene`", "5", "16"]]
    for name in ("irene", "sum", "utilisation", "specs", "counters", "partial"):
        each = model_errors(results.predictions[name])
        half, most = np.quantile(each, (0.5, 0.99)).tolist()
        rows.append([f"`{name}`", number(half), number(most)])
    percent = results.predictions["irene"].percent[:, of_kind(results.table, "model")]
    halves, ends = np.quantile(percent, (0.5, 0.99), axis=1)
    return f"""## Figure 3: distribution of model errors

![Cumulative distribution of model errors](../images/paper-figure-3.svg)

{markdown_table(("method", "half below, %", "99 % below, %"), rows)}

With single seeds half of the errors of our `irene` are below {halves.min():.1f} to
{halves.max():.1f} %, as in the paper, but 99 % only below {ends.min():.0f} to
{ends.max():.0f} %: no seed has so short an end as the published curve. The largest
errors are those of long runs of DistilBERT."""


def _figure_4(results: Results) -> str:
    return f"""## Figure 4: energy and accuracy of BERT sizes

![Energy of BERT sizes against SST-2 accuracy](../images/paper-figure-4.svg)

{_miniature_table(results.miniatures)}

Batch {BATCH}, length {LENGTH}, predicted by the `pc1` that ships with `irene`; nothing
was run. Widths other than 768 were never measured on this machine: these predictions
extrapolate, as their wider intervals say, and no measurement checks them.
`bert-base-uncased`, the same as `bert-l12-h768`, was measured at this size
({results.measured_base_j:.1f} J), and it is among the models that `pc1` learned from.
Accuracies on the test set of SST-2 are published for five of the 24 sizes: Tiny, Mini,
Small and Medium by Turc et al. (2019; README of google-research/bert), Base by Devlin
et al. (2019, Table 1; the original weights). The others are shown without. The paper's
figure has all 24, and measured energies too; they are not in the data."""


def _figure_5(results: Results) -> str:
    root = results.branches[0]
    encoder = next(b for b in results.branches if b.path == "encoder")
    like = _size_like(results.table, published.FIGURE_5_MODEL_J)
    return f"""## Figure 5: the tree of bert-base

![Tree of bert-base with mean energies](../images/paper-figure-5.svg)

Share of the model's energy, %, mean over sizes; one of twelve layers:

{figure_5_table(results.branches)}

The paper prints {published.FIGURE_5_MODEL_J} J for the model as an average over sizes.
The mean of the 28 sizes in the data is {root.measured_j:.1f} J
({root.predicted_j:.1f} J by `specs`); {published.FIGURE_5_MODEL_J} J is about what
{like} takes. As in Table 10, the paper's share of self-attention is lower than the
measured one. Nodes were run and measured one by one, so a measured part can take
slightly more than the whole; `irene` weighs each child by itself, and there the encoder
comes to {100 * encoder.irene_share:.0f} % of the model."""


def _size_like(table: NodeTable, joules: float) -> str:
    """The measured size of bert-base that takes about so many joules."""
    found = [
        (abs(float(table.energy_j[rows.start]) - joules), key, rows.start)
        for key, rows in table.trees()
        if key.model == published.MODELS[0]
    ]
    _, key, row = min(found)
    measured_j = float(table.energy_j[row])
    return f"batch {key.batch_size}, length {key.seq_len} alone ({measured_j:.1f} J)"


def _miniature_table(miniatures: Sequence[Miniature]) -> str:
    rows = []
    for mini in miniatures:
        nickname = published.NICKNAMES.get(mini.name)
        rows.append(
            [
                f"`{mini.name}`" + (f" ({nickname})" if nickname else ""),
                number(mini.energy.joules),
                f"{mini.energy.low:.2f} – {mini.energy.high:.2f}",
                "yes" if mini.is_outside else "no",
                number(published.SST2_PERCENT.get(mini.name), 1),
            ]
        )
    header = ("model", "energy, J", "interval, J", "extrapolates", "SST-2, %")
    return markdown_table(header, rows)


def _own(results: Results) -> str:
    return f"""## Our own methods, and harder questions

Errors in percent, ml / module / model, averaged over what was held out
(`python benchmarks/accuracy.py` prints the same with the figures they are held to);
three seeds where learning starts from random weights.

{split_table(results.rows)}

- Holding out one model says least about `specs`: every primitive and most modules of a
  model occur, measured separately, in another one, so it is close to looking them up.
  The other columns say what it knows.
- Families are BERT-like and GPT-like models. Runs of at most 1024 tokens are predicted
  from larger ones, those of more than 2048 from smaller ones.
- `counters` is three numbers per machine: power that is always drawn, power per CPU
  load, and a factor on the GPU's own energy.
- `partial` sets the total by the counters of one run of the whole model, and splits it
  as `specs` says.
- `unstructured` and `utilisation` see the time and GPU energy of the very node that
  they predict; so does `counters`.

### Intervals

`specs` gives an interval with every prediction. Its width at a level is the largest of
the {100 * COVERAGE:.0f} % quantiles of |log(predicted / measured)| of models that
were held out. Here the model itself was left out of that too. Part of its nodes that
lie inside:

{coverage_table(results.covered)}

Six models are few: a model that is harder than all others is covered less than the
nominal {100 * COVERAGE:.0f} %."""


def _validity() -> str:
    return """## What these numbers hold for

One desktop (Core i9-7900X, GTX 1080 Ti), measured at the wall; six models of width 768;
fp32; forward passes with eager attention in PyTorch 1.7; batch 8 to 32, length 32 to
256. The same node measured twice differs by 1.3 % for primitives, 0.8 % for modules and
0.6 to 0.9 % for models, so errors near one percent are as good as this data can show.
Nothing here says how well any method does for other widths, half precision, training,
generation, or a data-centre GPU."""
