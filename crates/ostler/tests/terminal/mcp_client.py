"""The official MCP client (PyPI: mcp, 2.3 or newer) against `ostler mcp`: it checks each answer against the schema it was told."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(server: str, session_id: str) -> None:
    parameters = StdioServerParameters(command=server, args=["mcp"], env=dict(os.environ))
    async with stdio_client(parameters) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            hello = await session.initialize()
            assert hello.server_info.name == "ostler", hello
            tools = (await session.list_tools()).tools
            assert all(tool.output_schema and tool.annotations.read_only_hint for tool in tools), tools
            calls = {
                "list_sessions": {"filter": "is:ended"},
                "get_session": {"id": session_id},
                "read_talk": {"id": session_id},
                "search": {"query": "parser"},
                "usage": {"by": "agent"},
                "disk_use": {},
                "gc_plan": {},
            }
            for name, arguments in calls.items():
                answer = await session.call_tool(name, arguments)
                assert not answer.is_error, (name, answer)
                assert answer.structured_content is not None, (name, answer)
            wrong = await session.call_tool("get_session", {"id": "nobody"})
            assert wrong.is_error, wrong
    print("understood")


asyncio.run(main(*sys.argv[1:]))
