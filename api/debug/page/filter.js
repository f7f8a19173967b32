// Which rows the list shows: by type of entry or event, and by text.
import { by, el, say } from "./dom.js";
import { NONE } from "./run.js";
import { event, number } from "./words.js";

const DELTA = /\.delta$/;

export class Filter {
  /** `changed()` is called where the user changes something. */
  constructor(changed) {
    this.off = new Set(); // names that are not shown: "in <name>" and "out <type>"
    this.text = "";
    this.changed = changed;
    this.shown = "";
    by("find").addEventListener("input", () => {
      this.text = by("find").value.toLowerCase();
      changed();
    });
    by("types-all").addEventListener("click", () => this.#only(() => true));
    by("types-no-deltas").addEventListener("click", () => this.#only((name) => !DELTA.test(name)));
    by("types").addEventListener("toggle", () => this.run && by("types").open && this.list(this.run, true));
    by("types").addEventListener("keydown", (pressed) => {
      if (pressed.key !== "Escape" || !by("types").open) return;
      pressed.stopPropagation();
      by("types").open = false;
      by("types").querySelector("summary").focus();
    });
    document.addEventListener("pointerdown", (pressed) => {
      if (by("types").open && !by("types").contains(pressed.target)) by("types").open = false;
    });
  }

  get active() { return this.off.size > 0 || this.text !== ""; }

  clear() {
    this.off.clear();
    this.text = by("find").value = this.shown = "";
    by("types").open = false;
  }

  /** The rows to show, or null for all. */
  rows(run) {
    this.run = run;
    if (!this.active) return null;
    const found = [];
    for (let row = 0; row < run.rowCount; row++) if (this.#passes(run, row)) found.push(row);
    return found;
  }

  #passes(run, row) {
    const n = run.rowEntry[row], seq = run.rowFrame[row];
    const entry = n !== NONE && !this.off.has(`in ${run.names[n - 1]}`);
    const frame = seq !== NONE && !this.off.has(`out ${run.types[seq]}`);
    if (!this.text) return entry || frame;
    return (entry && (run.names[n - 1].toLowerCase().includes(this.text) || run.said[n - 1].toLowerCase().includes(this.text)))
      || (frame && run.data[seq].toLowerCase().includes(this.text));
  }

  /** The boxes, one a type, with how often it is there. Only while they are to be seen: counting goes through all. */
  list(run, anew = false) {
    this.run = run;
    say(by("types-count"), this.off.size ? `−${this.off.size}` : "");
    if (!by("types").open && !anew) return;
    const counts = new Map();
    const count = (name) => counts.set(name, (counts.get(name) || 0) + 1);
    for (const name of run.names) count(`in ${name}`);
    for (const type of run.types) count(`out ${type}`);
    const key = [...counts.keys()].join("\n");
    if (key !== this.shown || anew) {
      this.shown = key;
      this.boxes = new Map();
      by("types-list").replaceChildren(...["in", "out"].map((side) => {
        const group = el("fieldset", side, el("legend", "", side === "in" ? "Input log" : "Output log"));
        for (const name of counts.keys()) {
          if (!name.startsWith(`${side} `)) continue;
          const box = el("input"), total = el("small");
          box.type = "checkbox";
          box.checked = !this.off.has(name);
          box.dataset.name = name;
          box.addEventListener("change", () => {
            if (box.checked) this.off.delete(name);
            else this.off.add(name);
            this.#said();
          });
          this.boxes.set(name, [box, total]);
          group.append(el("label", "", box, event(name.slice(side.length + 1)), total));
        }
        return group;
      }));
    }
    for (const [name, [, total]] of this.boxes) say(total, number(counts.get(name) || 0));
  }

  #only(wanted) {
    for (const [name, [box]] of this.boxes || []) {
      box.checked = wanted(name);
      if (box.checked) this.off.delete(name);
      else this.off.add(name);
    }
    this.#said();
  }

  #said() {
    say(by("types-count"), this.off.size ? `−${this.off.size}` : "");
    this.changed();
  }
}
