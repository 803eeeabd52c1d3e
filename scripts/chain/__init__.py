"""The whole chain on the machine at hand: collect, train, validate, tell.

`make chain` runs it and writes docs/explanation/the-whole-chain.md.
"""
