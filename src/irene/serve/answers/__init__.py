"""Answers: found or computed once, kept, and given again.

- `question`: what is asked, and the key that names its answer.
- `answering`: from a question to its answer; `memory` has those that are ready to be
  sent, `storage` those in the database, `sizes` what differs from them by sizes alone.
- `filling`: energies of the whole catalogue.
"""
