"""The script of the page in a real browser."""

from __future__ import annotations

import re

from irene.tree import TreeBuilder

from ..made_up import tree_of_own, with_made_up_energy
from ..real_browser import browse, needs_browser

pytestmark = needs_browser

ASK = """
const search = document.querySelector("#search");
const heard = [];
for (const word of ["linear", "fc", "layer.0", "nothing like it", ""]) {
  search.value = word;
  search.dispatchEvent(new Event("input"));
  heard.push(document.querySelector("#found").textContent);
}
const root = document.querySelector("#n0 button");
const press = (key) => {
  const event = new KeyboardEvent("keydown", {key, bubbles: true});
  document.activeElement.dispatchEvent(event);
};
const shown = () => document.querySelectorAll("#tree tbody tr:not([hidden])").length;
root.focus();
press("ArrowLeft");
heard.push(`${shown()} ${root.getAttribute("aria-expanded")}`);
press("ArrowRight");
press("ArrowDown");
// A page without a window in front is not told of the focus it has.
document.activeElement.dispatchEvent(new FocusEvent("focusin", {bubbles: true}));
heard.push(document.activeElement.closest("tr").dataset.path);
heard.push(String(document.querySelector("#details").textContent.includes("predicted")));
document.title = heard.join("|");
"""


def test_small_modules_are_closed_at_first_under_the_policy(tmp_path):
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    for name, flops in (("large", 10**12), ("small", 10**9)):
        module = builder.add(model, name, "module", "Block")
        builder.add(module, "fc", "ml", "Linear", flops=flops)
    tree = with_made_up_energy(builder.build())
    page, _ = browse(tree.to_html(), tmp_path)
    rows = dict(re.findall(r'<tr [^>]*data-path="([^"]*)"[^>]*?( hidden="")?>', page))
    assert rows["small.fc"]
    assert not rows["large.fc"]
    buttons = re.findall(r'<button [^>]*aria-expanded="(\w+)"', page)
    assert buttons == ["true", "true", "false"]
    assert '<div class="tools needs-script">' in page


def test_searching_and_walking(tmp_path):
    # Our own policy would refuse the words of this test.
    text = re.sub(r"<meta http-equiv[^>]+>", "", tree_of_own().to_html())
    text = text.replace("</body>", f"<script>{ASK}</script></body>")
    page, _ = browse(text, tmp_path)
    (title,) = re.findall(r"<title>([^<]*)</title>", page.partition("<body>")[0])
    assert title.split("|") == [
        "3 matches = 79 % of the energy",
        "2 matches = 60 % of the energy",
        "2 matches = 80 % of the energy",
        "no match",
        "",
        "1 false",
        "layer.0…1",
        "true",
    ]
