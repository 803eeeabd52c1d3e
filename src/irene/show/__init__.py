"""Trees, ledgers and answers for people: text, tables, pages, notebooks, pictures."""
