"""`irene predict`: the energy of a model, node by node, without running it."""

from __future__ import annotations

from irene.cli.asking.answering import asking_tree

USAGE = "MODEL [options]"
EXAMPLES = """\
examples:
  irene predict bert-base-uncased -b 8 -s 128 --on pc1
  irene predict gpt2 -b 16 -s 256 --depth 3 --sort energy
  irene predict roberta-base -b 8 -s 128 --top 10
  irene predict ./my-model/config.json --html energy.html
  irene predict bert-base-uncased -b 8 --json > energy.json
  irene predict llama-3.1-8b --on b200 --batch 64 --prompt 750 --output 500
  irene predict llama-3.3-70b --on h200 -b 32 --phase decode --context 4096 \\
      --quantization fp8 --tensor-parallel 2
"""
COMMAND = asking_tree("energy", "predicting")
