"""A headless Chromium that is told what to do over a pipe: windows as narrow as a phone's, keys, the tree that screen readers read."""
import base64
import json
import os
import shutil
import subprocess

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Without a sanitizer's library, which is for smelt: a browser that is started with it does not end.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


class Browser:
    """One page. Commands and answers are JSON with a zero byte behind each, on the browser's descriptors 3 and 4."""

    def __init__(self, url, width, height=900, mobile=False):
        into, self.out = os.pipe()
        self.back, answers = os.pipe()
        # By way of 8 and 9: the pipes' own numbers may be 3 and 4.
        shell = f'exec 8<&{into} 9>&{answers}; exec 3<&8 4>&9; exec "$0" "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, PATH, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(into, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        os.close(into)
        os.close(answers)
        self.left, self.last, self.session, self.errors = b"", 0, None, []
        targets = self("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")["targetId"]
        self.session = self("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Accessibility"):
            self(f"{domain}.enable")
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self("Page.navigate", url=url)
        while self.read().get("method") != "Page.loadEventFired":
            pass

    def read(self):
        while b"\0" not in self.left:
            more = os.read(self.back, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.left += more
        one, self.left = self.left.split(b"\0", 1)
        message = json.loads(one)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"]["text"])
        return message

    def __call__(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def run(self, script):
        """The value of an expression of the page."""
        result = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", ""))
        return result["result"].get("value")

    def press(self, key, code=None, text=None, shift=False):
        event = {"key": key, "code": code or key, "modifiers": 8 if shift else 0,
                 "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0)}
        self("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **({"text": text} if text else {}))
        self("Input.dispatchKeyEvent", type="keyUp", **event)

    def tree(self):
        """What a screen reader is told: (role, name) of each thing that it does not pass over."""
        nodes = self("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "").strip()) for n in nodes if not n["ignored"]]

    def picture(self, path, whole=False):
        clip = {}
        if whole:
            size = self("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png", **clip)["data"]))

    def print(self, path):
        path.write_bytes(base64.b64decode(self("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
