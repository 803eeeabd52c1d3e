"""Machines that `irene learn` has learned: time of every op as it runs in a model.

`timed_op`: ops by their sizes, and how cold their weights are; `op_models`: time of the
ops of one kind; `time_fit`: learns them, and what lies between ops, leaving families
out to see how good that is; `learned_machine`: the machine, its domain, its file.
"""
