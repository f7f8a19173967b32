// The raw bytes of the entry or the frame that is chosen, as they lie in the log.
import { by, press, say } from "./dom.js";
import { pretty } from "./texts.js";
import { of, raw } from "./server.js";
import { bytes, number, plain } from "./words.js";

const SETTLE_MS = 80;
const MOST = 16 * 1024; // bytes that are shown; the export has all
const MOST_HEX = 8 * 1024;
const KEPT = 30;

export class BytesPane {
  constructor() {
    this.side = "out";
    this.as = "text";
    this.kept = new Map();
    const side = (name) => () => {
      this.side = name;
      this.#chosen();
    };
    by("bytes-in").addEventListener("click", side("in"));
    by("bytes-out").addEventListener("click", side("out"));
    for (const as of ["text", "json", "hex"]) {
      by(`as-${as}`).addEventListener("click", () => {
        this.as = as;
        for (const one of ["text", "json", "hex"]) press(by(`as-${one}`), one === as);
        this.#draw();
      });
    }
  }

  reset() {
    this.kept.clear();
    this.run = null;
    this.wanted = "";
    by("bytes-shown").textContent = "";
  }

  /** Show an entry or a frame; `seq` below 0 and `n` below 1 are none. `side` where the user said which. */
  show(run, n, seq, side) {
    this.run = run;
    this.n = n;
    this.seq = seq;
    if (side) this.side = side;
    this.#chosen();
  }

  #chosen() {
    if (!this.run) return;
    const { n, seq } = this;
    by("bytes-in").disabled = n < 1;
    by("bytes-out").disabled = seq < 0;
    const side = this.side === "out" && seq >= 0 ? "out" : n >= 1 ? "in" : "out";
    say(by("bytes-in"), n < 1 ? "entry" : `entry ${n}`);
    say(by("bytes-out"), seq < 0 ? "frame" : `frame ${seq}`);
    press(by("bytes-in"), side === "in");
    press(by("bytes-out"), side === "out");
    const wanted = side === "in" ? `entries/${n}` : `frames/${seq}`;
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    clearTimeout(this.timer);
    if (this.kept.has(wanted)) return this.#draw();
    by("bytes-shown").classList.add("stale");
    this.timer = setTimeout(() => this.#ask(wanted), SETTLE_MS);
  }

  async #ask(wanted) {
    const run = this.run;
    try {
      const found = await raw(of(run.id, `/${wanted}`));
      if (run !== this.run) return;
      this.kept.set(wanted, found);
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
      if (wanted === this.wanted) this.#draw();
    } catch (error) {
      if (run === this.run && wanted === this.wanted) say(by("bytes-shown"), error.message);
    }
  }

  #draw() {
    const found = this.kept.get(this.wanted), box = by("bytes-shown");
    if (!found) return;
    box.classList.remove("stale");
    box.dataset.of = this.wanted;
    say(by("bytes-size"), bytes(found.length));
    const most = this.as === "hex" ? MOST_HEX : MOST;
    const cut = found.length > most ? `\n⋯ ${number(found.length - most)} bytes more: see the export` : "";
    const shown = found.subarray(0, most);
    if (this.as === "hex") box.textContent = hex(shown) + cut;
    else if (this.as === "json") box.textContent = indented(found);
    else box.textContent = plain(new TextDecoder().decode(shown)) + cut;
    box.scrollTop = 0;
  }
}

/** Sixteen bytes a line: place, numbers, letters. */
function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const numbers = row.map((b) => b.toString(16).padStart(2, "0"));
    numbers.splice(8, 0, "");
    const letters = row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${numbers.join(" ").padEnd(49)}  ${letters}`);
  }
  return lines.join("\n");
}

/** The JSON in the bytes: of an event its data, else the whole. */
function indented(data) {
  const whole = new TextDecoder().decode(data);
  const lines = whole.split("\n").filter((one) => one.startsWith("data:")).map((one) => one.slice(5).trimStart());
  const said = lines.length ? lines.join("\n") : whole;
  let found;
  try {
    found = JSON.parse(said);
  } catch {
    return `No JSON:\n${plain(said.slice(0, MOST))}`;
  }
  const shown = plain(pretty(found));
  return shown.length > MOST ? `${shown.slice(0, MOST)}\n⋯ ${number(shown.length - MOST)} characters more` : shown;
}
