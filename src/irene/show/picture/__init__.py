"""Charts as SVG text that needs nothing else, each with the numbers behind it.

- `picture`: `Picture`, what every chart gives: SVG, PNG, HTML, CSV; `png` renders.
- `line_chart`: lines with bands, and cumulative distributions.
- `scatter`: points with names, and the Pareto front.
- `bars`: bars with error bars. `timeline`: power over time with marked spans.
- `heat_matrix`: a table with shaded cells.
- `tree_chart`: a tree as an icicle, and as boxes and lines.
- `axis`, `units`, `frame`: what charts share: axes, numbers, title and legend.
- `shapes`, `lettering`, `colours`: what they are drawn with.
"""

from irene.show.picture.axis import AxisSpec
from irene.show.picture.bars import Bar, bar_chart
from irene.show.picture.heat_matrix import heat_matrix
from irene.show.picture.line_chart import Line, distribution, line_chart
from irene.show.picture.picture import Picture, check_drawable, in_a_column
from irene.show.picture.scatter import Dot, pareto_front, scatter
from irene.show.picture.timeline_chart import Span, timeline
from irene.show.picture.tree_chart import TreeBox, boxes_of, icicle_chart, tree_chart

__all__ = [
    "AxisSpec",
    "Bar",
    "Dot",
    "Line",
    "Picture",
    "Span",
    "TreeBox",
    "bar_chart",
    "boxes_of",
    "check_drawable",
    "distribution",
    "heat_matrix",
    "icicle_chart",
    "in_a_column",
    "line_chart",
    "pareto_front",
    "scatter",
    "timeline",
    "tree_chart",
]
