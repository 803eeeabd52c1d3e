"""The explore page with a large tree: how soon it answers, and what a plain list costs.

A T5 with 80 layers is traced and predicted for training; its tree has more than 10,000
nodes. A real server keeps it as an upload, and a real Chromium opens it.

- interactive: from the start of the navigation until the tree is drawn and a key moves
  through it, with equal layers folded and unfolded;
- expand all: from the click until the next picture, all layers unfolded;
- frames: everything expanded, table and node-link tree are scrolled and pointed at for
  some seconds; how long each frame took, of which 95 % should take less than 33 ms on a
  quiet machine;
- baseline: the same rows of the same tree as a plain table of HTML rows, all of them in
  the document, in the same browser in the same run.

Each figure is the median of several goes. The weight of the page is that of everything
it loads, without data.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

GOES = 5
LAYERS = 80
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CONFIG = {
    "model_type": "t5",
    "architectures": ["T5Model"],
    "num_layers": LAYERS,
    "num_decoder_layers": LAYERS,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 3072,
    "num_heads": 12,
    "vocab_size": 32128,
}
READY = """() => {
  const row = document.querySelector(".treegrid-row");
  if (!row) return false;
  row.focus();
  row.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}));
  return true;
}"""
MOVED = """() => document.activeElement?.getAttribute("aria-rowindex") === "3" &&
  performance.now()"""
PLAIN = """async () => {
  const {loadTree, label} = await import("/static/lib/tree.js");
  const {joules, percent} = await import("/static/lib/format.js");
  const id = new URLSearchParams(location.search).get("upload");
  const document_ = await (await fetch(`/api/v1/uploads/${id}`)).json();
  const tree = loadTree(document_, {all: true});
  const start = performance.now();
  const body = document.createElement("tbody");
  for (let row = 0; row < tree.size; row++) {
    const line = body.insertRow();
    line.insertCell().textContent = label(tree, row);
    line.insertCell().textContent = tree.nodes[row].op;
    line.insertCell().textContent = percent(tree.share[row]);
    line.insertCell().textContent = joules(tree.value[row]);
  }
  const table = document.createElement("table");
  table.append(body);
  document.querySelector("main").replaceChildren(table);
  table.getBoundingClientRect();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return [performance.now() - start, tree.size];
}"""
EXPAND = """async () => {
  const start = performance.now();
  const buttons = [...document.querySelectorAll("button")];
  buttons.find((button) => button.textContent === "Expand all").click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  document.querySelector(".treegrid, .node-link").getBoundingClientRect();
  return performance.now() - start;
}"""

FRAMES = """async ([selector, seconds]) => {
  const frame = document.querySelector(selector);
  const taken = [];
  const end = performance.now() + seconds * 1000;
  let before = await new Promise(requestAnimationFrame);
  for (let turn = 0; performance.now() < end; turn++) {
    const room = frame.scrollHeight - frame.clientHeight;
    const wide = frame.scrollWidth - frame.clientWidth;
    frame.scrollTo(wide * (0.5 + 0.5 * Math.sin(turn / 40)), (turn * 37) % room);
    const [left, top] = [frame.clientWidth / 2, frame.clientHeight / 2];
    const box = frame.getBoundingClientRect();
    const under = document.elementFromPoint(box.left + left, box.top + top);
    const where = {clientX: box.left + left, clientY: box.top + top, bubbles: true};
    under?.dispatchEvent(new PointerEvent("pointerenter", where));
    under?.dispatchEvent(new PointerEvent("pointermove", where));
    const now = await new Promise(requestAnimationFrame);
    taken.push(now - before);
    before = now;
  }
  return taken;
}"""
VIEWS = {"table": ".treegrid", "tree": ".node-link"}
FRAME_MS = 33.4
FRAME_SECONDS = 6


def large_tree(folder: Path) -> bytes:
    """The document of the large tree, as `irene predict --json` prints it."""
    config = folder / "t5-80.json"
    config.write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "irene", "predict", str(config)]
    options = ["-b", "1", "-s", "64", "--phase", "train", "--no-limits", "--json"]
    return subprocess.run([*command, *options], check=True, capture_output=True).stdout


def serve(folder: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """A server that is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "irene", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--data-dir", str(folder / "data")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    url = f"http://127.0.0.1:{port}"
    for _ in range(480):
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return url, process
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    process.terminate()
    raise SystemExit("irene serve did not start")


def upload(url: str, document: bytes) -> str:
    """Keeps the tree on the server; its id."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/v1/uploads", document, headers)
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["id"])


def interactive_s(browser: Any, address: str) -> float:
    """Seconds from navigation until a key has moved through the drawn tree."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    page.wait_for_function(READY, polling="raf")
    moved_ms = page.wait_for_function(MOVED, polling="raf").json_value()
    context.close()
    return float(moved_ms) / 1000


def expand_all_s(browser: Any, address: str) -> float:
    """Seconds from the click on "Expand all" until the next picture."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".treegrid-row, .node-link [role=treeitem]")
    taken_ms = page.evaluate(EXPAND)
    context.close()
    return float(taken_ms) / 1000


def frames_ms(browser: Any, address: str, view: str) -> tuple[list[float], float]:
    """Milliseconds of every frame while somebody looks around in the whole tree.

    Returns:
        Of the clock, which others on the machine make longer; and what the page itself
        computed per frame, on average.
    """
    selector = VIEWS[view]
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(selector)
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = busy_s(session)
    taken: list[float] = page.evaluate(FRAMES, [selector, FRAME_SECONDS])
    own_ms = 1000 * (busy_s(session) - before) / len(taken)
    context.close()
    return taken, own_ms


def busy_s(session: Any) -> float:
    """Seconds that the page's thread has computed, whatever else the machine did."""
    told = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in told if each["name"] == "TaskDuration")


def show_frames(name: str, taken: list[float], own_ms: float) -> None:
    """Print the median, the 95th percentile and how many frames were quick."""
    quick = sum(each < FRAME_MS for each in taken) / len(taken)
    slow = statistics.quantiles(taken, n=20)[-1]
    print(
        f"{name:34} {statistics.median(taken):6.1f} ms   95 % under {slow:.1f} ms; "
        f"{quick:.1%} of {len(taken)} under 33 ms   (at least 95 %); "
        f"the page computes {own_ms:.1f} ms per frame"
    )


def plain_list_s(browser: Any, address: str) -> tuple[float, int]:
    """Seconds that a plain table of the same rows takes, and how many rows it has."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".treegrid-row")
    taken_ms, rows = page.evaluate(PLAIN)
    context.close()
    return taken_ms / 1000, int(rows)


def weight(browser: Any, url: str) -> tuple[int, int]:
    """Bytes of everything the first page loads but data, plain and packed."""
    context = browser.new_context()
    page = context.new_page()
    answers: list[Any] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(url)
    page.wait_for_selector(".treegrid-row")
    bodies = [answer.body() for answer in answers if "/api/" not in answer.url]
    context.close()
    packed = sum(len(gzip.compress(body)) for body in bodies)
    return sum(map(len, bodies)), packed


def show(name: str, goes: list[float], limit_s: float | None = None) -> float:
    """Print the median of some goes, with its limit."""
    middle = statistics.median(goes)
    limit = "" if limit_s is None else f"   (at most {limit_s} s)"
    spread = f"{min(goes):.2f} to {max(goes):.2f}"
    print(f"{name:34} {middle:6.2f} s   {spread}{limit}")
    return middle


def measure(browser: Any, url: str, tree: str) -> None:
    """Print everything."""
    folded = f"{url}/?upload={tree}"
    unfolded = f"{folded}&unfold=1"
    interactive_s(
        browser, folded
    )  # the server's first answer of a file is not the page
    show(
        "interactive, folded",
        [interactive_s(browser, folded) for _ in range(GOES)],
        1.5,
    )
    goes = [interactive_s(browser, unfolded) for _ in range(GOES)]
    show("interactive, unfolded", goes, 1.5)
    goes = [expand_all_s(browser, unfolded) for _ in range(GOES)]
    table = show("expand all, table", goes, 0.5)
    goes = [expand_all_s(browser, f"{unfolded}&view=tree") for _ in range(GOES)]
    show("expand all, node-link tree", goes, 0.5)
    opened = f"{unfolded}&depth=all"
    for view in VIEWS:
        found = frames_ms(browser, f"{opened}&view={view}", view)
        show_frames(f"frames, {view}", *found)
    plain = [plain_list_s(browser, unfolded) for _ in range(GOES)]
    baseline = show("baseline: plain list, same rows", [taken for taken, _ in plain])
    print(
        f"{plain[0][1]:,} rows; the table takes {table / baseline:.2f} of a plain list"
    )
    whole, packed = weight(browser, f"{url}/?model=bert-l2-h128")
    print(f"page without data: {whole:,} bytes, {packed:,} packed (at most 300,000)")


def main() -> None:
    """Make the tree, start the server and the browser, measure."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no Chromium on the path (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        document = large_tree(folder)
        url, process = serve(folder)
        try:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=CHROMIUM_ARGS
            )
            measure(browser, url, upload(url, document))
            browser.close()
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
