"""A browser without a window, driven over pipes in Chrome's DevTools Protocol.

Chromium reads commands from its descriptor 3 and writes answers and events to 4, each a JSON object
ended by a zero byte, so that nothing but Python's own library is needed. Every wait has a deadline.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
DEADLINE_S = 120  # for hangs alone


def find_browser():
    """Returns the browser's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, program):
        # What the browser's own processes still write there when it has ended does not matter.
        self.profile = tempfile.TemporaryDirectory(
            prefix="gradsync_test_", ignore_cleanup_errors=True
        )
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        # The shell gives the pipes the numbers that the browser asks for.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            [
                *("bash", "-c", script, program, "--headless=new", "--no-sandbox"),
                *("--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--hide-scrollbars", "--disable-background-networking"),
                *(f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe"),
            ],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.next_id, self.events, self.session = b"", 0, [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(ProcessLookupError):  # those that it started itself
            os.killpg(self.process.pid, signal.SIGKILL)
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def read(self, deadline):
        """Returns the next answer or event."""
        while b"\0" not in self.buffer:
            ready = select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]
            if not ready:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise EOFError(f"the browser ended: {self.process.wait()}")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **parameters):
        """Returns the result of a command; events that come before it are kept."""
        self.next_id += 1
        command = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_S
        while (message := self.read(deadline)).get("id") != self.next_id:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def open(self, path, width=1280, height=900, scheme="light"):
        """Opens a file in a window of that size, and returns when it is laid out."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        deadline = time.monotonic() + DEADLINE_S
        self.ask("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read(deadline))
        self.value("document.documentElement.scrollHeight")  # laid out

    def value(self, expression):
        """Returns what a JavaScript expression comes to in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")

    def complaints(self):
        """Returns what the console says of the page that was opened last, and what it asked for
        beside itself."""
        said = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Log.entryAdded":
                said.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled":
                said.append(json.dumps(parameters["args"]))
            elif event["method"] == "Runtime.exceptionThrown":
                said.append(parameters["exceptionDetails"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and (
                parameters["type"] != "Document"
            ):
                said.append(f"asked for {parameters['request']['url']}")
        return said

    def screenshot(self, file):
        """Writes the whole page as PNG."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, file):
        """Writes the page as it would be printed."""
        file.write_bytes(base64.b64decode(self.ask("Page.printToPDF")["data"]))
