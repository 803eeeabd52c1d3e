// Every key, once: shown by `?` and on the help page.

/** @type {{title: string, keys: [string, string][]}[]} */
export const KEYS = [
  {
    title: "Everywhere",
    keys: [
      ["?", "this list"],
      ["/", "search"],
      ["Ctrl + K", "find a model, a machine or a page"],
      ["g then e, c, t, l, s, k, p, w, o", "explore, compare, trade-off, leaderboard, suggest, cost, serve plan, what if, open"],
      ["Tab, Shift + Tab", "next, previous control"],
      ["Esc", "close what is open"],
    ],
  },
  {
    title: "Tree table",
    keys: [
      ["↑ ↓", "row above, row below"],
      ["→", "open the node; then its first child"],
      ["←", "close the node; then its parent"],
      ["Home, End", "first, last row"],
      ["Page Up, Page Down", "a screenful up, down"],
      ["Enter, Space", "pin the node's details, or let them go"],
      ["x", "unfold ×N equal layers, or fold them again"],
      ["*", "open all siblings"],
      ["letters", "next row whose name begins so"],
    ],
  },
  {
    title: "Tree",
    keys: [
      ["↑ ↓", "box above, box below"],
      ["→", "open the box; then its first child"],
      ["←", "close the box; then its parent"],
      ["Enter", "make the node the root; on the root, go back up"],
      ["Space", "pin the node's details"],
      ["x", "unfold ×N equal layers, or fold them again"],
    ],
  },
  {
    title: "Icicle",
    keys: [
      ["← →", "sibling before, sibling after"],
      ["↑ ↓", "parent, largest child"],
      ["Enter", "make the node the root; on the root, go back up"],
      ["Space", "pin the node's details"],
      ["x", "unfold ×N equal layers, or fold them again"],
      ["Home", "back to the whole model"],
    ],
  },
  {
    title: "Power over time, icicles of compare",
    keys: [
      ["← →", "move the cursor (Shift: faster); sibling before, after"],
      ["+ −", "zoom in, out"],
      ["Page Up, Page Down", "earlier, later"],
      ["↑ ↓, Enter", "parent, largest child; pin the part in all"],
      ["Esc", "the whole run; let the part go"],
    ],
  },
];
