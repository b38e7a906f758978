"""A running `espalier serve` for scripts: on a free port, with its log at hand, ended by SIGTERM."""
import re
import signal
import subprocess
import tempfile


class StartedServer:
    """`with StartedServer(program, model, flags...) as server`: server.url, server.pid."""

    def __init__(self, program, model, *flags):
        self.log = tempfile.TemporaryFile("w+")
        command = [program, "serve", model, "--port", "0", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=self.log, text=True)
        self.url = None
        for line in self.process.stderr:
            if found := re.search(r"serving at (\S+)/v1", line):
                self.url = found[1]
                break
            print(line, end="")
        if not self.url:
            raise SystemExit(f"{program} serve {model} ended before it served")
        self.pid = self.process.pid
        # What it says later must not fill the pipe.
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait(60)
        self.drain.wait(10)
        self.log.close()
