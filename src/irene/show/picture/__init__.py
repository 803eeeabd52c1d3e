"""Charts as SVG text that needs nothing else, each with the numbers behind it.

- `picture`: `Picture`, what every chart gives: SVG, PNG, HTML, CSV.
- `line_chart`: lines with bands, and cumulative distributions.
- `scatter`: points with names, and the Pareto front.
- `bars`: bars with error bars. `timeline_chart`: power over time with marked spans.
- `heat_matrix`: a table with shaded cells.
- `tree_pictures`: a tree as an icicle, and as boxes and lines.
- `answer_pictures`: bottlenecks, comparisons, sizes, trade-offs, ledgers, exams;
  `study_pictures`: studies.
- `axis`, `units`, `frame`: what charts share: axes, numbers, title and legend.
- `shapes`, `lettering`, `colours`: what they are drawn with.
"""

from irene.show.picture.answer_pictures import (
    bottleneck_bars,
    comparison_bars,
    leaderboard_bars,
    size_chart,
    trade_off_chart,
    what_if_chart,
)
from irene.show.picture.axis import AxisSpec
from irene.show.picture.bars import Bar, bar_chart
from irene.show.picture.heat_matrix import heat_matrix
from irene.show.picture.line_chart import Line, distribution, line_chart
from irene.show.picture.picture import Picture, check_drawable, in_a_column
from irene.show.picture.scatter import Dot, scatter
from irene.show.picture.timeline_chart import Span, timeline
from irene.show.picture.tree_pictures import TreeBox, boxes_of, icicle_chart, tree_chart

__all__ = [
    "AxisSpec",
    "Bar",
    "Dot",
    "Line",
    "Picture",
    "Span",
    "TreeBox",
    "bar_chart",
    "bottleneck_bars",
    "boxes_of",
    "check_drawable",
    "comparison_bars",
    "distribution",
    "heat_matrix",
    "icicle_chart",
    "in_a_column",
    "leaderboard_bars",
    "line_chart",
    "scatter",
    "size_chart",
    "timeline",
    "trade_off_chart",
    "tree_chart",
    "what_if_chart",
]
