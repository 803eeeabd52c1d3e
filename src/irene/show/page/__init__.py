"""Pages to look at in a browser, which need no network."""
