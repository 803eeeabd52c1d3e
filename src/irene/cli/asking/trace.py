"""`irene trace`: a model as a tree with costs."""

from __future__ import annotations

from irene.cli.asking.answering import asking_tree

USAGE = "MODEL [options]"
EXAMPLES = """\
examples:
  irene trace bert-base-uncased -b 8 -s 128
  irene trace gpt2 --level math --depth 6
  irene trace llama-3.1-8b --phase decode --context 4096 --dtype bf16 --attention sdpa
  irene trace ./my-model/config.json --json > tree.json
  irene trace t5-base -s 512 --decoder-seq 64 --sort flops
  irene trace gpt2 --top 10
  irene trace gpt2 --html gpt2.html
  irene trace llama-3.1-8b -b 64 --prompt 750 --output 500
"""
COMMAND = asking_tree("tree", "tracing")
