"""A headless Chromium behind chromedriver: the few calls of W3C WebDriver that tests use."""

import base64
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mlflow_store import wait_until

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
ENTER = "\ue007"


class Browser:
    def __init__(self, address: str) -> None:
        self._session = f"{address}/session"
        options = {"binary": CHROMIUM, "args": [*FLAGS, "--window-size=1500,1000"]}
        asked = {"alwaysMatch": {"goog:chromeOptions": options}}
        self._session += "/" + self._post("", {"capabilities": asked})["sessionId"]

    def _post(self, path: str, content: dict[str, Any]) -> Any:
        data = json.dumps(content).encode()
        request = urllib.request.Request(f"{self._session}{path}", data, method="POST")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, url: str) -> None:
        self._post("/url", {"url": "about:blank"})  # another fragment alone would load nothing
        self._post("/url", {"url": url})

    def ask(self, script: str, *arguments: Any) -> Any:
        """What a function of JavaScript returns that has this body."""
        return self._post("/execute/sync", {"script": script, "args": arguments})

    def text(self) -> str:
        return str(self.ask("return document.body.innerText"))

    def wait_for(self, *texts: str) -> str:
        """The page's text, once it has all of these."""
        wait_until(lambda: all(text in self.text() for text in texts), seconds=120)
        return self.text()

    def type(self, selector: str, text: str) -> None:
        element = self._post("/element", {"using": "css selector", "value": selector})
        (number,) = element.values()
        self._post(f"/element/{number}/value", {"text": text})

    def picture(self, path: Path) -> None:
        with urllib.request.urlopen(f"{self._session}/screenshot", timeout=60) as answer:
            path.write_bytes(base64.b64decode(json.load(answer)["value"]))

    def quit(self) -> None:
        request = urllib.request.Request(self._session, method="DELETE")
        urllib.request.urlopen(request, timeout=60).close()


@contextmanager
def browser() -> Iterator[Browser]:
    assert DRIVER is not None
    driver = subprocess.Popen(
        [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert driver.stdout is not None
    page = None
    try:
        told = next(line for line in driver.stdout if "successfully on port" in line)
        port = told.rstrip(".\n").rpartition(" ")[2]
        page = Browser(f"http://127.0.0.1:{port}")
        yield page
    finally:
        if page:
            with suppress(OSError):
                page.quit()
        driver.terminate()
        driver.wait(20)
