// Both logs side by side: what came in on the left, what went out because of it on the right.
//
// Only the rows that are to be seen are elements, and they are used again: a list of 40,000 rows costs as much as one of 40.
import { by, el, say } from "./dom.js";
import { NONE } from "./run.js";
import { brief, line, number } from "./words.js";

const ROW = 22; // px, as in style.css
const SPARE = 6; // rows above and below what is seen
const MOST_PX = 8_000_000; // a browser's element may not be much taller: past it, scrolling is scaled
const PREVIEW = 160;

export class Ledger {
  constructor({ chosen, hovered }) {
    this.box = by("ledger");
    this.inner = by("ledger-rows");
    this.chosen = chosen;
    this.hovered = hovered;
    this.run = null;
    this.rows = null; // numbers of the rows that pass the filter; null: all
    this.row = 0;
    this.hover = -1;
    this.pool = [];
    this.dirty = false;
    // Asked for once a change, not while a picture is being made: that would lay the page out twice.
    this.top = this.high = 0;
    this.box.addEventListener("scroll", () => {
      this.top = this.box.scrollTop;
      this.draw();
    }, { passive: true });
    new ResizeObserver(() => {
      this.high = this.box.clientHeight;
      this.draw();
    }).observe(this.box);
    const rowOf = (target) => Number(target.closest?.("[data-row]")?.dataset.row ?? -1);
    this.inner.addEventListener("click", (pressed) => {
      const row = rowOf(pressed.target);
      if (row >= 0) chosen(row, pressed.target.closest(".in") ? "in" : "out");
    });
    this.inner.addEventListener("pointermove", (moved) => hovered(rowOf(moved.target)));
    this.inner.addEventListener("pointerleave", () => hovered(-1));
  }

  get count() { return this.rows ? this.rows.length : this.run?.rowCount ?? 0; }
  rowAt(at) { return this.rows ? this.rows[at] : at; }

  /** Where a row stands in the list, or the one before it where it is filtered out. */
  place(row) {
    if (!this.rows) return row;
    let low = -1, high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.rows[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  show(run, rows) {
    const other = run !== this.run;
    this.run = run;
    this.rows = rows;
    if (other) this.#scroll(0);
    const say_ = rows ? `${number(rows.length)} of ${number(run.rowCount)} rows` : `${number(run.rowCount)} rows`;
    say(by("ledger-count"), say_);
    this.#size();
    this.draw();
  }

  /** Go to a row; `reveal` scrolls to it. */
  move(row, reveal = true) {
    this.row = row;
    if (reveal) {
      const { top, high } = this, y = Math.max(0, this.place(row)) * ROW * this.scale;
      if (y < top + ROW) this.#scroll(Math.max(0, y - ROW));
      else if (y > top + high - 2 * ROW) this.#scroll(y - high + 2 * ROW);
    }
    this.draw();
  }

  /** What is shown is drawn for that place before the box itself is there. */
  #scroll(top) {
    const most = Math.max(0, this.count * ROW * this.scale - this.high);
    this.top = Math.min(Math.max(top, 0), most);
    this.scrolled = true;
  }

  point(row) {
    if (this.hover === row) return;
    this.hover = row;
    this.draw();
  }

  /** The row `by_` places on in the list. */
  step(by_) {
    const at = this.place(this.row) + by_;
    return this.rowAt(Math.min(Math.max(at, 0), this.count - 1)) ?? this.row;
  }

  get scale() { return Math.min(1, MOST_PX / Math.max(1, this.count * ROW)); }

  draw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      if (this.run) this.#draw();
    });
  }

  #draw() {
    const { box, run, count, scale, high, top } = this;
    if (this.scrolled) {
      this.scrolled = false;
      box.scrollTop = top;
    }
    const first = Math.max(0, Math.floor(top / scale / ROW) - SPARE);
    const last = Math.min(count, first + Math.ceil(high / ROW) + 2 * SPARE);
    const shift = top - (top / scale); // 0 where nothing is scaled
    while (this.pool.length < last - first) this.pool.push(this.#made());
    const cause = this.hover >= 0 ? run.rowCause[this.hover] : NONE;
    let active = "";
    for (let k = 0; k < this.pool.length; k++) {
      const at = first + k, element = this.pool[k].element;
      if (at >= last) {
        if (!element.hidden) element.hidden = true;
        continue;
      }
      if (element.hidden) element.hidden = false;
      const row = this.rowAt(at);
      this.#fill(this.pool[k], row, at, cause);
      element.style.transform = `translateY(${Math.round(at * ROW + shift)}px)`;
      if (row === this.row) active = element.id;
    }
    if (active) box.setAttribute("aria-activedescendant", active);
    else box.removeAttribute("aria-activedescendant");
  }

  /** The height that all rows would have, which is what the scroll bar shows. */
  #size() {
    const tall = `${Math.round(this.count * ROW * this.scale)}px`;
    if (this.inner.style.height !== tall) this.inner.style.height = tall;
  }

  #made() {
    const cell = (name) => el("span", name);
    const made = { n: cell("no in"), t: cell("ms in"), name: cell("name in"), said: cell("said in"), seq: cell("no out"), type: cell("name out"), text: cell("said out") };
    made.element = el("div", "row", made.n, made.t, el("span", "half in", made.name, made.said), made.seq, el("span", "half out", made.type, made.text));
    made.element.id = `row-${this.pool.length}`;
    made.element.setAttribute("role", "option");
    this.inner.append(made.element);
    return made;
  }

  #fill(made, row, at, cause) {
    const { run } = this;
    const element = made.element, n = run.rowEntry[row], seq = run.rowFrame[row], own = run.rowCause[row];
    const kind = n === NONE ? "" : run.kinds[n - 1];
    const state = `row${row === this.row ? " at" : ""}${row === this.hover ? " hover" : cause !== NONE && own === cause ? " kin" : ""}` +
      `${n === NONE ? " more" : ""}${kind && kind !== "frame" ? " event" : ""}${row > this.row ? " later" : ""}`;
    if (element.className !== state) element.className = state;
    const key = `${run.id} ${row} ${n} ${seq}`;
    if (made.key !== key) {
      made.key = key;
      element.dataset.row = row;
      say(made.n, n === NONE ? "" : String(n));
      say(made.t, n === NONE ? "" : number(run.times[n - 1] - run.times[0]));
      say(made.name, n === NONE ? "" : brief(run.names[n - 1]));
      say(made.said, n === NONE ? "" : line(run.said[n - 1]));
      say(made.seq, seq === NONE ? "" : String(seq));
      say(made.type, seq === NONE ? "" : brief(run.types[seq]));
      say(made.text, seq === NONE ? "" : line(preview(run.data[seq])));
    }
    element.setAttribute("aria-selected", String(row === this.row));
    element.setAttribute("aria-posinset", String(at + 1));
    element.setAttribute("aria-setsize", String(this.count));
  }
}

/** What a public frame says, short. Large ones (whole responses) are not read for it. */
function preview(data) {
  if (data.length > 8192) return "";
  try {
    const said = JSON.parse(data);
    const text = said.delta ?? said.text ?? said.arguments ?? said.input;
    if (typeof text === "string") return text.slice(0, PREVIEW);
    if (said.item) return [said.item.type, said.item.name].filter(Boolean).join(" ");
    return said.response?.status ?? "";
  } catch {
    return "";
  }
}
