"""Ops as they run inside a model: what `irene learn` measures.

`op_timing`: a model that is quickly made, ready to run again and again, and the time of
every op of it, in the state that the model leaves the caches in; `designs`: what is run
to learn a machine, in an order that can end anywhere; `items`: runs one part of it;
`seen`: what was seen of it, as it is kept.
"""
