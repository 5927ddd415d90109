"""A gateway in this process, reached from within local sandboxes, each by a door of its own."""

from pathlib import Path

import pytest
from tests.trainer.gateway.conftest import make_tokenizer
from tests.trainer.gateway.tool_templates import HERMES

from sweyard_sandbox.agents.protocol import ReachableSession
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.runtimes.fake import FakeRuntime
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.client import InProcessGateway
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits

CALL = """\
import json, sys, urllib.request
url, token = sys.argv[1:]
body = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
request = urllib.request.Request(url + "/v1/chat/completions", body, {"Authorization": "Bearer " + token})
try:
    with urllib.request.urlopen(request, timeout=20) as reply:
        print(json.load(reply)["choices"][0]["message"]["content"])
except Exception as error:
    print(type(error).__name__, getattr(error, "code", ""))
"""


@pytest.fixture
def gateway() -> InProcessGateway:
    renderer = ChatRenderer(make_tokenizer(HERMES))
    engine = FakeEngine(lambda prompt, seed: renderer.reply_ids(f"reply to {seed}"))
    numbers = iter(range(100))
    return InProcessGateway(
        Gateway(renderer, Limits(200, 400, 300)), [engine], new_token=lambda: f"key-{next(numbers)}"
    )


async def test_each_sandbox_reaches_its_own_session_alone(tmp_path: Path, gateway: InProcessGateway) -> None:
    runtime = LocalRuntime()
    await gateway.use_weights(0)
    said = []
    async with (
        await runtime.acquire(f"dir:{tmp_path}", deadline_seconds=30.0) as first,
        await runtime.acquire(f"dir:{tmp_path}", deadline_seconds=30.0) as second,
    ):
        ends = []
        for name, sandbox in (("a", first), ("b", second)):
            session = await gateway.open_session(name, temperature=1.0, seed=ord(name))
            assert isinstance(session, ReachableSession)
            ends.append(await session.endpoint(sandbox))
            await sandbox.write("/tmp/call.py", CALL.encode())
        tries = [
            (first, ends[0].url, ends[0].token),
            (second, ends[1].url, ends[1].token),
            (first, ends[0].url, "key-9"),
        ]
        for sandbox, url, token in tries:
            result = await sandbox.run(f"python3 /tmp/call.py {url} {token}", timeout_seconds=60.0)
            said.append(result.text.strip())
        records = [await gateway.finish_session(name) for name in "ab"]
        closed = await first.run(f"python3 /tmp/call.py {ends[0].url} {ends[0].token}", timeout_seconds=60.0)
    await gateway.close()
    await runtime.close()

    assert said[0].startswith("reply to")
    assert said[1].startswith("reply to")
    assert said[0] != said[1]
    assert said[2] == "HTTPError 401"
    assert closed.text.split()[0] == "URLError"
    assert [record.messages[-1].content for record in records] == said[:2]


async def test_a_sandbox_without_such_a_network_is_told(gateway: InProcessGateway) -> None:
    await gateway.use_weights(0)
    session = await gateway.open_session("a", temperature=1.0, seed=0)
    sandbox = await FakeRuntime().acquire("image", deadline_seconds=1.0)
    assert isinstance(session, ReachableSession)
    with pytest.raises(InfrastructureError, match="cannot reach a gateway in this process"):
        await session.endpoint(sandbox)
