"""Makes docs/explanation/results.md: the IrEne paper beside what the data says.

    python -m scripts.paper        (from the root of the repository; `make paper`)

- `published`: the paper's numbers, and accuracies that others published.
- `held_out`: every method's prediction of every node, its model held out.
- `markdown`: tables as text.
- `error_tables`: Tables 4 to 9 and 11.
- `energy_shares`: Tables 10 and 12, and the numbers of Figure 5.
- `own_methods`: our methods on all splits.
- `figures`: Figures 3, 4 and 5, drawn by `irene.show.picture`.
- `page`: puts it all together.
"""
