"""The official Python SDK against `loopgate mcp`: one line on standard output for each thing that was seen.

python_sdk.py MODE stdio LOOPGATE ARGUMENTS...
python_sdk.py MODE http URL TOKEN

MODE is `auto` (the newest protocol) or `legacy` (the one with `initialize`).
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def seen(client):
    print("protocol", client.protocol_version)
    tools = await client.list_tools()
    print("tools", " ".join(tool.name for tool in tools.tools))
    progress = []

    async def on_progress(value, total, message):
        progress.append((value, message))

    asked = await client.call_tool("run", {"item": "Which Bob?"}, progress_callback=on_progress)
    run = asked.structured_content["run"]
    print("state", asked.structured_content["state"])
    # Steps that come while the client is told of one are left out, but the last is always told.
    steps = [value for value, _ in progress]
    print("progress", steps == sorted(set(steps)), progress[-1][1])
    action = asked.structured_content["waiting"][0]["action"]
    await client.call_tool("answer_question", {"run": run, "action": action, "answer": "the one at EPAM"})
    ended = await client.call_tool("wait_for_run", {"run": run, "wait_ms": 20000})
    print("ended", ended.structured_content["state"], ended.structured_content["answer"])
    read = await client.call_tool("read_document", {"run": run})
    print("read", read.structured_content["answer"])
    listed = await client.list_resources()
    uris = [str(resource.uri) for resource in listed.resources]
    print("listed", f"loopgate://runs/{run}/document.md" in uris)
    contents = await client.read_resource(f"loopgate://runs/{run}/document.md")
    print("resource", contents.contents[0].text.strip())
    started = await client.call_tool("start_run", {"item": "Wait for long"})
    slow = started.structured_content["run"]
    print("started", started.structured_content["state"])
    stopped = await client.call_tool("stop_run", {"run": slow})
    print("stopped", stopped.structured_content["stop"]["class"])
    refused = await client.call_tool("wait_for_run", {"run": "nothing"})
    print("refused", refused.is_error)


async def main():
    mode, transport, *rest = sys.argv[1:]
    if transport == "stdio":
        async with Client(StdioServerParameters(command=rest[0], args=rest[1:], env=None), mode=mode) as client:
            await seen(client)
        return
    url, token = rest
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http_client:
        async with Client(streamable_http_client(url, http_client=http_client), mode=mode) as client:
            await seen(client)


asyncio.run(main())
