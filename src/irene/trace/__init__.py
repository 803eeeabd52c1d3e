"""From a model to its tree of costs, without weights and without a run.

The package is also the function: `irene.trace("bert-base-uncased", batch_size=8)`.

- `tracer`: `trace`; `phases`: what of a run is called and recorded.
- `recorder`: watches a model run, by `watchers`, and writes down the tree; `primitives`
  says what an ML primitive is, `naming` what modules are called, `gradients` where
  backward ops go; `captor`: who is handed the call behind every node.
- `values`: content of small meta tensors; `meta_shapes`: shapes, worked out once.
- `costs`: FLOPs and bytes of an op, in one open table.
- `sources`, `twins`, `models`, `inputs`, `positions`, `limits`: from a name to a model
  and its inputs.
- `wrapped`: sentence-transformers, quantised layers and pipelines; `pipelines`: those
  of several models.
- `model_files`: the config that GGUF and safetensors files imply, by their headers;
  `gguf_header`: that of GGUF.
- `onnx_graph`: the tree of an ONNX file; `onnx_nodes`: its tensors and nodes;
  `onnx_ops`: its ops; needs no torch.
- `catalogue`: configs of known models; needs no torch.
- `templates`: trees as functions of size, evaluated without torch; `templates.trees` is
  where the tree of a run is got.
- `serving`: what a serving engine runs for a decoder; needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.lazy import lazily

if TYPE_CHECKING:
    from irene.trace.costs import COSTS, Call, OpCost, cost_formula, register_cost
    from irene.trace.tracer import trace

__all__ = ["COSTS", "Call", "OpCost", "cost_formula", "register_cost", "trace"]

__getattr__ = lazily(__name__)
