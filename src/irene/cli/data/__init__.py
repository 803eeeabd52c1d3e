"""Commands on measured data.

- `collect`: the runs of a sweep, into a store.
- `data`: look into, convert, fetch, look after it; `data_text`: what is in it.
"""
