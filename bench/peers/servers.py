"""Both servers as their clients meet them, with nothing but Python's library: `espalier serve` and llama.cpp's
llama-server, started on a free port, asked over HTTP/1.1, and stopped again."""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ESPALIER = str(ROOT / "build/release/espalier")
STARTING_S = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server that runs as long as the `with` block; `command` gets --port. It says what it said when it fails."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def __enter__(self):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*self.command, "--port", str(self.port)], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + STARTING_S
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise SystemExit(f"{' '.join(self.command)} did not start:\n{self.said}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.seek(0)
        self.said = self.log.read()[-2000:]
        self.log.close()

    def healthy(self):
        try:
            connection = self.connect(5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def connect(self, timeout=600):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def respond(self, path, body):
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(f"{self.name}: POST {path}: status {response.status}: {response.read().decode()}")
        return response

    def ask(self, path, body):
        return json.loads(self.respond(path, body).read())

    def stream(self, path, body):
        """Yields the events of a streamed answer as they come, each parsed."""
        for line in self.respond(path, {**body, "stream": True}):
            if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                yield json.loads(line[6:])


def espalier(model, threads, *flags, program=ESPALIER):
    return Server("espalier", [program, "serve", model, "--threads", str(threads), "--log-level", "error", *flags])


def llama(folder, model, threads, slots, context, *flags):
    """`context` tokens for each of the slots. Without its page, and without prompts kept from earlier requests."""
    return Server("llama.cpp", [os.path.join(folder, "llama-server"), "-m", model, "-t", str(threads), "-np",
                                str(slots), "-c", str(slots * context), "--no-webui", "--cache-ram", "0", *flags])
