"""Commands that run something under meters.

- `measure`: a model, node by node; `monitor`: a whole program; `doctor`: the meters.
- `watch`: an inference server, per token; `account`: where a program spent its energy.
- `study`: the studies of the Smaragdine paper.
"""
