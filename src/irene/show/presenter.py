"""Who presents trees, ledgers and comparisons: what `irene.presented` asks for."""

from irene.show import answer_screens, notebook, text
from irene.show.page import ledger_page as ledgers
from irene.show.page import tree_page as trees
from irene.show.picture import answer_pictures, tree_pictures

tree_text = text.tree_text
tree_latex = text.tree_latex
tree_page = trees.tree_page
tree_picture = tree_pictures.tree_picture
tree_notebook = notebook.tree_notebook
ledger_page = ledgers.ledger_page
ledger_notebook = notebook.ledger_notebook
comparison_notebook = notebook.comparison_notebook
answer_text = answer_screens.answer_text
answer_picture = answer_pictures.answer_picture
