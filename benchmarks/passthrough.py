"""The least a proxy on aiohttp can do: read the body, send it on, stream the answer back. For comparison.

python benchmarks/passthrough.py PORT UPSTREAM_URL
"""

from __future__ import annotations

import sys

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

HOP = {"host", "content-length", "transfer-encoding", "connection"}


def application(upstream: str) -> web.Application:
    async def session(app: web.Application):
        app["session"] = ClientSession(
            connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None), auto_decompress=False
        )
        yield
        await app["session"].close()

    async def relay(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP]
        async with request.app["session"].request(
            request.method, upstream + request.raw_path, data=body, headers=headers
        ) as reply:
            answer = web.StreamResponse(
                status=reply.status, headers={k: v for k, v in reply.headers.items() if k.lower() not in HOP}
            )
            await answer.prepare(request)
            async for data in reply.content.iter_any():
                await answer.write(data)
            await answer.write_eof()
            return answer

    app = web.Application(client_max_size=1 << 30)
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", relay)
    return app


if __name__ == "__main__":
    import uvloop

    uvloop.install()
    web.run_app(
        application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None
    )
