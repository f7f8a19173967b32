// The replay: the input log folded again with the gateway's code of now, held against what was stored.
import { by, el } from "./dom.js";
import { json, of } from "./server.js";
import { number, plain } from "./words.js";

const AROUND = 400; // characters shown before and after the first one that differs

/** Ask for it and show it; `goto(n, seq)` leads to the place. */
export async function replay(id, goto) {
  const dialog = by("verdict"), box = by("verdict-shown");
  box.replaceChildren(el("p", "faint", "Folding the input log again …"));
  delete dialog.dataset.verdict;
  if (!dialog.open) dialog.showModal();
  let found;
  try {
    found = await json(of(id, "/replay"));
  } catch (error) {
    box.replaceChildren(el("p", "wrong", error.message));
    return;
  }
  if (found.identical) {
    const scope = found.done ? "" : " so far (the response still runs)";
    box.replaceChildren(el("p", "good", "Identical."),
      el("p", "", `${number(found.entries)} entries folded again with this code give the ${number(found.frames)} public frames that were stored${scope}, byte for byte.`));
    dialog.dataset.verdict = "identical";
    return;
  }
  const what = found.round ? `The body of round ${found.round} differs` : `Frame ${number(found.seq)} differs`;
  const go = el("button", "", `Go to entry ${found.entry}`);
  go.type = "button";
  go.addEventListener("click", () => {
    dialog.close();
    goto(found.entry, found.round ? -1 : found.seq);
  });
  box.replaceChildren(
    el("p", "wrong", `${what}: it is the first one, and comes of entry ${found.entry}.`),
    el("p", "faint", "The response was made by other code than this process runs, or its log was changed."),
    el("div", "versions", ...versions(found.stored, found.refolded)), el("p", "", go));
  dialog.dataset.verdict = "different";
}

/** Both versions around the first character that differs. */
function versions(stored, refolded) {
  const a = stored?.text ?? "", b = refolded?.text ?? "";
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return [["As stored", stored, a], ["As folded now", refolded, b]].map(([title, version, said]) => {
    const box = el("section", "", el("h3", "", version ? `${title}, ${number(version.size)} bytes` : title));
    if (!version) box.append(el("p", "faint", "There is none."));
    else {
      const from = Math.max(0, at - AROUND);
      box.append(el("pre", "text", from ? "⋯" : "", plain(said.slice(from, at)), el("mark", "", plain(said.slice(at, at + 1))),
        plain(said.slice(at + 1, at + AROUND)), at + AROUND < said.length ? "⋯" : ""));
    }
    return box;
  });
}
