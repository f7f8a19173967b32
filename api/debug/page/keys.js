// The keys, in one table: what listens to them and what the help says about them.
import { by, el } from "./dom.js";

/** `does` maps a name below to what it does. */
export function keys(does) {
  const table = [
    [["ArrowRight", "ArrowDown", "j"], "→ ↓ j", "one row on", "next"],
    [["ArrowLeft", "ArrowUp", "k"], "← ↑ k", "one row back", "back"],
    [["PageDown"], "PgDn", "20 rows on", "pageOn"],
    [["PageUp"], "PgUp", "20 rows back", "pageBack"],
    [["Home"], "Home", "to the first row", "first"],
    [["End"], "End", "to the last row", "last"],
    [["]"], "]", "next public frame", "nextFrame"],
    [["["], "[", "previous public frame", "backFrame"],
    [["."], ".", "next entry that is no upstream frame", "nextMark"],
    [[","], ",", "previous one", "backMark"],
    [[" "], "Space", "play with the original timing, stop", "play"],
    [["l"], "l", "follow the newest frame", "follow"],
    [["/"], "/", "filter by text", "find"],
    [["t"], "t", "timeline by time or by order", "scale"],
    [["+", "="], "+", "zoom in", "zoomIn"],
    [["-"], "−", "zoom out", "zoomOut"],
    [["0"], "0", "all of it", "fit"],
    [["r"], "r", "replay with this code", "replay"],
    [["e"], "e", "export", "export"],
    [["?"], "?", "these keys", "help"],
  ];
  for (const [, shown, words] of table) by("help-keys").append(el("div", "", el("dt", "", el("kbd", "", shown)), el("dd", "", words)));
  const found = new Map(table.flatMap(([pressed, , , name]) => pressed.map((key) => [key, name])));
  document.addEventListener("keydown", (pressed) => {
    if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || document.querySelector("dialog[open]")) return;
    const target = pressed.target;
    if (target.matches("input[type=search], input[type=password]")) {
      if (pressed.key === "Escape") by("ledger").focus();
      return;
    }
    const name = found.get(pressed.key);
    if (!name || !does[name]) return;
    // Keys that a control has a use for of its own are left to it.
    if (pressed.key === " " && target.matches("button, summary, a, input")) return;
    if (/^(Arrow|Page|Home|End)/.test(pressed.key) && target.matches(".view, pre, nav *, .sheet *")) return;
    pressed.preventDefault();
    does[name]();
  });
}
