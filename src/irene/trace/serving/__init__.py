"""What a serving engine runs for a decoder, from its config alone; needs no torch.

- `tree`: `serving_tree`, a config and a run in, a `ModelTree` out.
- `config`: from the fields of a config to a `decoder`; `families` knows what the fields
  do not say, `hybrids` which layers are no attention, `published` how weights are
  stored.
- `step`: which tokens a step carries, and how a generation is made of steps.
- `layers`: the ops of a layer; `writer`: ops as nodes with their FLOPs and bytes;
  `gguf`: which blocks store which weights in GGUF files.
"""

from irene.trace.serving.config import read_decoder
from irene.trace.serving.decoder import Decoder
from irene.trace.serving.tree import decoder_tree, is_serving_tree, serving_tree

__all__ = [
    "Decoder",
    "decoder_tree",
    "is_serving_tree",
    "read_decoder",
    "serving_tree",
]
