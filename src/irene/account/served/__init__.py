"""Inference servers that run: what they counted × power samples → energy per token.

- `server_counts`: what servers count, by the names of their metrics: one table.
- `token_energy`: energy and tokens of a time, split among prompts, cached prompts and
  answers by what one more of each costs.
- `requests`: single requests, and whose energy it was; `proxy`: a door that sees them.
- `watching`: a server and the meters of a machine, asked again and again.
"""
