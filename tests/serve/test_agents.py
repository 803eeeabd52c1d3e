"""Agents: the protocol is spoken by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from irene.questions import QUESTIONS
from irene.serve.agents import called, make_server, tools

mcp = pytest.importorskip("mcp", reason="mcp is not installed: pip install mcp")


def asked(*calls: tuple[str, Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The tools, and what calls of them answer, over the protocol."""

    async def talk() -> tuple[list[Any], list[Any]]:
        async with mcp.Client(make_server()) as client:
            listed = (await client.list_tools()).tools
            return listed, [await client.call_tool(n, dict(a)) for n, a in calls]

    return asyncio.run(talk())


def test_questions_are_asked_over_the_protocol() -> None:
    run = {"model": "llama-3.2-1b", "on": "h100", "phase": "decode"}
    subjects = ["llama-3.2-1b", "llama-3.2-3b"]
    listed, answers = asked(
        ("predict", run),
        ("compare", {"subject": subjects, "on": "h100", "phase": "decode"}),
        ("cost", {**run, "requests": 1000}),
        ("models", {"search": "llama"}),
        ("hardware", {}),
        ("predict", {"model": "no-such-model"}),
        ("predict", {**run, "batch": 3}),
        ("models", {"word": "llama"}),
        ("hardware", {"name": "h100"}),
    )
    assert [tool.name for tool in listed] == [each["name"] for each in tools()]
    good, wrong = answers[:5], answers[5:]
    schemas = ["tree", "comparisons", "cost", "models", "hardware"]
    for answer, schema in zip(good, schemas, strict=True):
        assert not answer.is_error, answer
        assert answer.structured_content["schema"] == f"irene.{schema}/1"
        assert json.loads(answer.content[0].text) == answer.structured_content
    same = QUESTIONS["energy"].asked({**run, "level": "module"})
    assert good[0].structured_content == dict(same.document(same.answer()))
    assert all(each.is_error for each in wrong)
    assert "unknown model" in wrong[0].content[0].text
    assert "batch_size" in wrong[1].content[0].text
    assert "no option 'word' of models; there is search" in wrong[2].content[0].text
    assert "no option 'name' of hardware" in wrong[3].content[0].text


def test_inputs_say_what_parameters_say() -> None:
    takes = {each["name"]: each["input_schema"] for each in tools()}["predict"]
    assert takes["required"] == ["model"]
    assert takes["properties"]["batch_size"]["minimum"] == 1
    assert "decode" in takes["properties"]["phase"]["enum"]
    assert called("models", {"search": "gpt2"})["models"][0]["params"] > 0
