"""Inputs of the right shape for a model, from its config and a RunSpec.

- `maker`: `InputMaker`, tensors for one model and run.
- `sequences`, `vision`, `audio`: one kind of input each, `multimodal`: several at once;
  each ends with the model types that follow no general rule.
- `by_name`: `make_inputs`, which chooses among them.

Token ids and masks are small, so they keep their content even on the meta device (see
`values`). Everything else is a tensor of the right shape without content.
"""

from irene.trace.inputs.by_name import make_inputs
from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.multimodal import Inputs

__all__ = ["InputMaker", "Inputs", "make_inputs"]
