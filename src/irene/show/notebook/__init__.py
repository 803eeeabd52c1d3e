"""What notebooks show of trees, ledgers and comparisons."""
