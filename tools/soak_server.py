#!/usr/bin/env python3
"""Lets many clients, good and bad, loose on `espalier serve`; not part of the tests.

    python3 tools/soak_server.py build/release/espalier MODEL --clients 200 --seconds 600

Each client does one thing after another, drawn from KINDS: requests that are right, and malformed, deep, huge, slow,
half-closed, abandoned ones. Exits with 1 where a kind got another status than its own, the server ended, its memory
grew by more than --growth-mb after the first minute (of a run of two or more), it kept sockets open, or requests were
still running when all clients were gone. Standard library alone.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import sys
import time

from started_server import StartedServer

LIMIT_S = 600  # a client's patience for one answer
WORDS = ["one", "two", "tree", "élan", "猫", "🙂", "{", "\""]
HEAD = "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


class Client:
    def __init__(self, host, port, rng):
        self.host, self.port, self.rng = host, port, rng

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    def close(self):
        self.writer.close()

    def head(self, path, size):
        return HEAD.format(path, f"{self.host}:{self.port}", size).encode()

    async def send(self, path, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.writer.write(self.head(path, len(data)) + data)
        await self.writer.drain()

    async def answer(self):
        """Status and body; status 0 where the server hung up without one."""
        line = await asyncio.wait_for(self.reader.readline(), LIMIT_S)
        if not line:
            return 0, b""
        status, length, chunked = int(line.split()[1]), 0, False
        while (header := (await self.reader.readline()).strip().lower()):
            if header.startswith(b"content-length:"):
                length = int(header.split(b":")[1])
            chunked = chunked or header == b"transfer-encoding: chunked"
        if status == 100:
            return await self.answer()
        if not chunked:
            return status, await asyncio.wait_for(self.reader.readexactly(length), LIMIT_S)
        body = b""
        while size := int((await asyncio.wait_for(self.reader.readline(), LIMIT_S)).strip() or b"0", 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return status, body

    async def ask(self, path, body):
        await self.send(path, body)
        return await self.answer()

    def words(self, count):
        return " ".join(self.rng.choice(WORDS) for _ in range(count))

    def chat(self, **more):
        return {"messages": [{"role": "user", "content": self.words(self.rng.randrange(1, 40))}],
                "max_tokens": self.rng.randrange(1, 12), **more}


# What a client does, how often, and the status that it must get. Each gives the status and whether all else was right.

async def chat(client):
    status, body = await client.ask("/v1/chat/completions", client.chat())
    return status, json.loads(body)["choices"][0]["finish_reason"] in ("stop", "length")


async def choices(client):
    status, body = await client.ask("/v1/completions", {"prompt": client.words(5), "n": 2, "max_tokens": 4})
    return status, len(json.loads(body)["choices"]) == 2


async def stream(client):
    status, body = await client.ask("/v1/chat/completions", client.chat(stream=True))
    return status, body.endswith(b"data: [DONE]\n\n")


async def embeddings(client):
    status, body = await client.ask("/v1/embeddings", {"input": client.words(4)})
    return status, len(json.loads(body)["data"]) == 1


async def schema(client):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["red", "green"]}}}
    status, body = await client.ask("/v1/chat/completions", client.chat(response_format=form) | {"max_tokens": 20})
    return status, json.loads(json.loads(body)["choices"][0]["message"]["content"]) in ("red", "green")


async def kept_alive(client):
    status, _ = await client.ask("/tokenize", {"content": client.words(10)})
    again, body = await client.ask("/tokenize", {"content": "x"})
    return status, again == 200 and b"tokens" in body


async def malformed(client):
    text = json.dumps(client.chat()).encode()
    return (await client.ask("/v1/chat/completions", text[:client.rng.randrange(1, len(text))]))[0], True


async def wrong_type(client):
    change = client.rng.choice([{"max_tokens": "many"}, {"temperature": -1}, {"messages": 3}, {"stop": [5]}, {"n": 0},
                                {"logit_bias": [[]]}, {"tools": {}}, {"seed": 1e300}, {"stream": "yes"}])
    status, body = await client.ask("/v1/chat/completions", client.chat(**{k: v for k, v in change.items()
                                                                           if k not in ("messages", "max_tokens")})
                                    | change)
    return status, "message" in json.loads(body)["error"]


async def deep(client):
    depth = client.rng.choice([100, 5000, 200000])
    return (await client.ask("/v1/chat/completions", b'{"messages":' + b"[" * depth))[0], True


async def bad_utf8(client):
    return (await client.ask("/v1/completions", b'{"prompt": "\xff\xfe\xc3("}'))[0], True


async def too_long(client):
    status, body = await client.ask("/v1/completions", {"prompt": "tree " * 20000})
    return status, json.loads(body)["error"]["code"] == "context_length_exceeded"


async def huge(client):
    client.writer.write(client.head("/v1/completions", 100 << 20))
    try:
        for _ in range(100):
            client.writer.write(b" " * (1 << 20))
            await asyncio.wait_for(client.writer.drain(), 5)
    except (ConnectionError, asyncio.TimeoutError):
        pass  # it need not take them all
    try:
        return (await client.answer())[0], True
    except ConnectionError:
        return 413, True  # it answered and hung up while we were still sending


async def slow(client):
    client.writer.write(b"POST /v1/completions HTTP/1.1\r\n")
    sent = asyncio.create_task(drip(client))
    status, _ = await client.answer()
    sent.cancel()
    return status, True


async def drip(client):
    while True:
        await asyncio.sleep(1)
        client.writer.write(b"X: y\r\n")


async def half_closed(client):
    await client.send("/v1/completions", {"prompt": "x", "max_tokens": 3})
    client.writer.write_eof()
    return (await client.answer())[0], True


async def vanishes(client):
    await client.send("/v1/chat/completions", client.chat(stream=True) | {"max_tokens": 4000})
    await asyncio.wait_for(client.reader.readline(), LIMIT_S)
    client.writer.transport.abort()
    return -1, True


async def vanishes_early(client):
    text = client.head("/v1/chat/completions", 500)
    client.writer.write(text[:client.rng.randrange(1, len(text))])
    await client.writer.drain()
    client.writer.transport.abort()
    return -1, True


async def noise(client):
    client.writer.write(bytes(client.rng.randrange(256) for _ in range(300)) + b"\r\n\r\n")
    return (await client.answer())[0], True


async def nowhere(client):
    return (await client.ask("/v1/nothing", {}))[0], True


KINDS = {chat: (6, 200), choices: (2, 200), stream: (6, 200), embeddings: (1, 200), schema: (1, 200),
         kept_alive: (2, 200), malformed: (3, 400), wrong_type: (3, 400), deep: (1, 400), bad_utf8: (1, 400),
         too_long: (1, 400), huge: (0.3, 413), slow: (1, 408), half_closed: (2, 200), vanishes: (3, -1),
         vanishes_early: (2, -1), noise: (1, 400), nowhere: (1, 404)}


class Soak:
    def __init__(self, server, args):
        self.pid, self.args = server.pid, args
        self.host, port = server.url.removeprefix("http://").rsplit(":", 1)
        self.port = int(port)
        self.statuses = collections.defaultdict(collections.Counter)
        self.wrong = []

    async def client(self, number, end):
        rng = random.Random(number)
        while time.monotonic() < end:
            kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
            client = Client(self.host, self.port, rng)
            try:
                await client.open()
                status, right = await kind(client)
                if status != KINDS[kind][1] or not right:
                    self.wrong.append(f"{kind.__name__}: status {status}, content {'right' if right else 'wrong'}")
            except Exception as e:  # the edge of a client: the next thing is another's
                status = repr(e)
                self.wrong.append(f"{kind.__name__}: {e!r}")
            self.statuses[kind.__name__][status] += 1
            client.close()

    def rss_mb(self):
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    async def metrics(self):
        client = Client(self.host, self.port, None)
        await client.open()
        client.writer.write(f"GET /metrics HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        _, body = await client.answer()
        client.close()
        lines = (line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    async def watch(self, begin, settled):
        """The most memory that was used before and after `settled`."""
        most = [0, 0]
        while True:
            late = time.monotonic() > settled
            most[late] = max(most[late], self.rss_mb())
            self.most = most
            if int(time.monotonic() - begin) % 30 == 0:
                print(f"{time.monotonic() - begin:5.0f} s: {self.rss_mb():.0f} MB, {self.open_files()} files, "
                      f"{sum(c.total() for c in self.statuses.values())} done, {len(self.wrong)} wrong", flush=True)
            await asyncio.sleep(1)

    async def run(self):
        async with asyncio.timeout(60):
            await self.metrics()
        files = self.open_files()
        begin = time.monotonic()
        seconds = self.args.seconds
        watch = asyncio.create_task(self.watch(begin, begin + 60))
        await asyncio.gather(*[self.client(i, begin + seconds) for i in range(self.args.clients)])
        watch.cancel()
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = await self.metrics()
            busy = sum(v for k, v in found.items() if k in ("espalier_requests_running", "espalier_requests_waiting"))
            left = self.open_files() - files
            if busy == 0 and left <= 1:
                break
            await asyncio.sleep(1)
        if busy or left > 1:
            self.wrong.append(f"after all clients were gone: {busy:.0f} requests run, {left} more files are open")
        growth = self.most[1] - self.most[0]
        if seconds >= 120 and growth > self.args.growth_mb:
            self.wrong.append(f"memory grew by {growth:.0f} MB after the first minute")
        for kind, statuses in sorted(self.statuses.items()):
            print(f"{kind:15} {dict(statuses)}")
        print(f"memory: at most {self.most[0]:.0f} MB in the first minute, {self.most[1]:.0f} MB after it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--growth-mb", type=float, default=64)
    args = parser.parse_args()
    with StartedServer(args.program, args.model) as server:
        soak = Soak(server, args)
        try:
            asyncio.run(soak.run())
        except (OSError, TimeoutError) as e:  # the edge: most often the server is gone
            soak.wrong.append(f"the server does not answer: {e!r}")
        if server.process.poll() is not None:
            soak.wrong.append(f"the server ended with {server.process.returncode}")
    if server.code != 0:
        soak.wrong.append(f"the server ended with {server.code}")
    for line, count in collections.Counter(soak.wrong).most_common(20):
        print(f"WRONG {count} times: {line}")
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
