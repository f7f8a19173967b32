// Texts in the two panes: long ones with their middle left out until somebody asks, the newest piece marked.
import { el } from "./dom.js";
import { ends, number } from "./words.js";

const MOST = 3000; // characters of one text: more than a pane shows, and laid out within a few ms

/** A text as an element; `piece` is what was added last, at its end. */
export function text(whole, piece = "", open = false) {
  const box = el("pre", "text");
  const body = piece && whole.endsWith(piece) ? whole.slice(0, whole.length - piece.length) : whole;
  const [head, left, tail] = open ? [body, 0, ""] : ends(body, MOST);
  box.append(head);
  if (left) {
    const more = el("button", "quiet", `⋯ ${number(left)} characters ⋯`);
    more.type = "button";
    more.addEventListener("click", () => box.replaceWith(text(whole, piece, true)));
    box.append(more, tail);
  }
  if (body !== whole) box.append(el("mark", "", piece));
  return box;
}

/** JSON, indented, for people. */
export const pretty = (value) => JSON.stringify(value, null, 2);

/** A few words each under its name. */
export function facts(pairs) {
  const list = el("dl", "facts");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    list.append(el("div", "", el("dt", "", name), el("dd", "", String(value))));
  }
  return list;
}
