"""Trees, ledgers and answers for people.

- `view`: which lines of a tree are shown and how they add up.
- `text`: a tree as plain text; `terminal`: tables on a terminal, `fitted` to
  its width; `tree_terminal`, `ledger_terminal`: trees and ledgers there;
  `answer_screens`, `screens_of_several`: answers.
- `page`: pages: one shell, templates, style and script.
- `cards`: metadata, labels and words for regulators.
- `checks`: budgets in Markdown and as JUnit tests; `served`: a server that runs.
- `notebook`: what notebooks show.
- `picture`: charts, and pictures of trees, ledgers and answers.
- `report`: everything about one model on one page.
- `presenter`: what trees, ledgers and comparisons ask of this room.
"""
