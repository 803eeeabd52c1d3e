"""Small programs in place of the one that traces: they start in no time."""

from __future__ import annotations

BEGINNING = """
import json, os, sys, time
order = json.loads(sys.stdin.buffer.readline())
out = sys.stdout.buffer
def say(**message):
    out.write(json.dumps(message).encode() + b"\\n")
    out.flush()
say(begun=True)
"""
RESULT = """
body = json.dumps({"model": order["arguments"]["model"]}).encode()
say(result=len(body))
out.write(body)
out.flush()
"""
QUICK = f"{BEGINNING}\nsay(progress=dict(done=1, total=2, text='half'))\n{RESULT}"
ENDLESS = (
    f"{BEGINNING}\nsay(progress=dict(done=1, total=2, text='half'))\ntime.sleep(600)"
)
FAILING = f"{BEGINNING}\nsay(problem=dict(error='ConfigError', detail='no such layer'))"


def program(code: str) -> tuple[str, ...]:
    """Arguments for Python that run some code."""
    return ("-I", "-c", code)
