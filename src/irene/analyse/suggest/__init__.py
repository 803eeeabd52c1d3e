"""Suggestions: what to change, and how many joules it saves.

One rule per file; a rule that does not apply says nothing. Every saving is a real
prediction, the same that `what_if` gives for the change.

- `suggestion`: `Suggestion`, and `Situation`, what rules look at.
- `advice`: all rules asked, and their suggestions in order.
- `batch_size`, `padding`, `tiles`: sizes. `attention`, `precision`, `quantization`:
  settings.
- `activation`, `vocabulary_head`, `layers`: the architecture.
- `distilled`: other models.
"""

from irene.analyse.suggest.advice import RULES, Advice, suggestions
from irene.analyse.suggest.suggestion import EFFORTS, Rule, Situation, Suggestion

__all__ = [
    "EFFORTS",
    "RULES",
    "Advice",
    "Rule",
    "Situation",
    "Suggestion",
    "suggestions",
]
