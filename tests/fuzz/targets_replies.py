"""Replies of servers: models behind endpoints, SPARQL services."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from hypothesis import strategies as st

from taskloom.core.http import Refused, TryLater, retry_after
from taskloom.learners.models.client import EndpointError, Limits, ModelClient
from taskloom.suites.taskbench.worlds.facts import sparql
from tests.fuzz.engine import Verdict, target
from tests.fuzz.strategies import as_text, mutated_json, mutated_text

REPLY = {
    "id": "x",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
reply_bodies = st.one_of(
    mutated_json([REPLY]).map(json.dumps),
    mutated_text([json.dumps(REPLY)], ['"', "{", "[", "}", "9", "null", "data: "]),
)
statuses = st.sampled_from(
    [200, 200, 200, 200, 201, 204, 301, 400, 401, 404, 408, 413, 429, 500, 503]
)
headers = st.dictionaries(
    st.sampled_from(["retry-after", "content-type", "content-encoding", "location"]),
    st.sampled_from(
        [
            "0",
            "-1",
            "nan",
            "1e400",
            "soon",
            "Wed, 21 Oct 2015 07:28:00 GMT",
            "application/json",
            "text/html",
            "gzip",
            "http://localhost:9",
        ]
    ),
    max_size=2,
)


@cache
def _client() -> tuple[ModelClient, dict[str, Any]]:
    """Build a client whose server is a function in this process: what it replies is in the
    dictionary.
    """
    limits = Limits(at_once=1, attempts=1, pause=0.0, timeout=5.0)
    client = ModelClient("http://localhost:9/v1", "m", "k", limits)
    reply: dict[str, Any] = {}

    def serve(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            reply["status"], headers=reply["headers"], stream=httpx.ByteStream(reply["body"])
        )

    client._http._open = lambda: httpx.Client(transport=httpx.MockTransport(serve))  # type: ignore[method-assign]
    return client, reply


def _warm() -> None:
    """Let the library ask once: it looks at the machine that it runs on."""
    client, reply = _client()
    reply.update(status=200, headers={}, body=json.dumps(REPLY).encode())
    client.ask(["Is it?"], 5)


@target("endpoints", st.tuples(statuses, headers, reply_bodies), weight=7, cost=2, warm=_warm)
def endpoints(given: tuple[int, dict[str, str], str], folder: Path) -> Verdict:
    """Ask a model whose reply may be anything."""
    client, reply = _client()
    status, fields, body = given
    reply.update(status=status, headers=fields, body=as_text(body))
    client.cache = type(client.cache)(None, EndpointError)
    retry_after(fields)
    client.ask(["Is it?"], 5)
    return "accepted"


RESULTS = {
    "head": {"vars": ["a", "b"]},
    "results": {
        "bindings": [
            {
                "a": {"type": "uri", "value": "http://x/1"},
                "b": {"type": "literal", "value": "one", "xml:lang": "en"},
            }
        ]
    },
}
result_bodies = st.one_of(
    mutated_json([RESULTS]).map(json.dumps),
    mutated_text([json.dumps(RESULTS)], ['"', "{", "[", "}", "9", "null"]),
)


@target("sparql", result_bodies, weight=50)
def sparql_results(body: str, folder: Path) -> Verdict:
    """Read the answer of a SPARQL service; the client turns both exceptions into sentences."""
    try:
        sparql._rows(as_text(body), ("a", "b"))
    except (TryLater, Refused) as error:
        raise sparql.SparqlError(str(error)) from error
    return "accepted"
