// The timeline: both logs as ticks on two lanes, a line from each entry to what came of it; below, calls as bars and marks.
//
// Ticks are drawn on a canvas, counted a pixel column at a time, so that 20,000 frames cost as much as 200. Calls and marks
// are few, and are elements: they can be reached with Tab and say what they are.
import { by, el, press, say } from "./dom.js";
import { markOf, NONE } from "./run.js";
import { span } from "./words.js";

const AXIS = 20, LANE = 34, GAP = 22, BAR = 17, MARKS = 19, PAD = 6;
const LEAST = 5; // px of a bar, so that it can be seen and clicked
const MOST_BARS = 6; // rows of bars; further calls share the last one
const MOST_MARKS = 200;

export class Timeline {
  /** `chosen(row)` is called where the user goes somewhere, `hovered(row)` where the pointer is (-1: nowhere). */
  constructor({ chosen, hovered }) {
    this.plot = by("plot");
    this.canvas = by("canvas");
    this.chosen = chosen;
    this.hovered = hovered;
    this.byTime = true;
    this.view = [0, 1]; // what is shown, as parts of the whole
    this.row = 0;
    this.hover = -1;
    this.dirty = false;
    this.run = null;
    this.colors();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colors(); this.draw(); });
    this.width = 0;
    new ResizeObserver(() => {
      this.width = this.plot.clientWidth;
      this.draw();
    }).observe(this.plot);
    this.#listen();
  }

  colors() {
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "muted", "line", "panel", "up", "pub", "bad", "band", "veil", "accent"];
    this.color = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  show(run, clientCalls) {
    this.run = run;
    this.clientCalls = clientCalls;
    this.view = [0, 1];
    this.hover = -1;
    this.barsKey = this.marksKey = "";
    by("bars").replaceChildren();
    by("marks").replaceChildren();
    this.draw();
  }

  scale(byTime) {
    this.byTime = byTime;
    press(by("by-time"), byTime);
    press(by("by-order"), !byTime);
    this.view = [0, 1];
    this.draw();
  }

  /** Show `factor` times as much, around a part of what is shown. */
  zoom(factor, around = null) {
    const [a, b] = this.view;
    const middle = around ?? Math.min(Math.max(this.part(this.row), a), b);
    const wide = Math.min(1, Math.max((b - a) * factor, 1e-5));
    const from = Math.min(Math.max(middle - ((middle - a) / (b - a || 1)) * wide, 0), 1 - wide);
    this.view = [from, from + wide];
    this.draw();
  }

  pan(by_) {
    const wide = this.view[1] - this.view[0];
    const from = Math.min(Math.max(this.view[0] + by_ * wide, 0), 1 - wide);
    this.view = [from, from + wide];
    this.draw();
  }

  fit() {
    this.view = [0, 1];
    this.draw();
  }

  move(row) {
    this.row = row;
    const at = this.part(row), [a, b] = this.view;
    if (at < a || at > b) this.pan((at - (a + b) / 2) / (b - a));
    this.draw();
  }

  point(row) {
    if (this.hover === row) return;
    this.hover = row;
    this.draw();
  }

  /** Draw before the next picture, once, however often it is asked for. */
  draw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      if (this.run && this.width) this.#draw();
    });
  }

  /** Where a row is, from 0 to 1. */
  part(row) {
    const run = this.run;
    if (!run || !run.rowCount) return 0;
    return this.byTime ? run.time(row) / run.duration : (row + 0.5) / run.rowCount;
  }

  /** Where an entry is. */
  partOf(n) {
    const run = this.run;
    if (this.byTime) return (run.times[n - 1] - run.times[0]) / run.duration;
    return ((run.entryRow[n - 1] ?? 0) + 0.5) / Math.max(run.rowCount, 1);
  }

  x(part) {
    const [a, b] = this.view;
    return PAD + ((part - a) / (b - a)) * (this.width - 2 * PAD);
  }

  rowAtX(x) {
    const [a, b] = this.view;
    const part = Math.min(Math.max(a + ((x - PAD) / (this.width - 2 * PAD)) * (b - a), 0), 1);
    if (!this.byTime) return Math.min(Math.floor(part * this.run.rowCount), this.run.rowCount - 1);
    return this.run.rowAt(part * this.run.duration);
  }

  #draw() {
    const { run, canvas, color } = this;
    const bars = this.#bars(), marks = this.#marks();
    const rows = Math.max(1, Math.min(MOST_BARS, bars));
    const top = { up: AXIS, pub: AXIS + LANE + GAP, bars: AXIS + 2 * LANE + GAP + 6, marks: 0 };
    top.marks = top.bars + rows * BAR + 3;
    const height = top.marks + MARKS;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(this.width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
      this.plot.style.height = `${height}px`;
      by("bars").style.top = `${top.bars}px`;
      by("marks").style.top = `${top.marks}px`;
      by("lane-tool").style.top = `${top.bars}px`;
      by("lane-mark").style.top = `${top.marks}px`;
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, height);
    if (!run.rowCount) return;
    this.#rounds(g, top.pub + LANE);
    this.#axis(g, top.pub + LANE);
    this.#lanes(g, top);
    const x = this.x(this.part(this.row));
    g.fillStyle = color.veil; // what had not happened yet
    g.fillRect(x, AXIS, this.width - x, height - AXIS);
    this.#cursor(g, this.hover, top, color.muted, height);
    this.#cursor(g, this.row, top, color.accent, height);
    g.fillStyle = color.accent;
    g.beginPath();
    g.moveTo(x - 5, AXIS - 9);
    g.lineTo(x + 5, AXIS - 9);
    g.lineTo(x, AXIS - 1);
    g.fill();
    const [a, b] = this.view;
    say(by("span"), b - a < 0.999 && this.byTime ? `${span(a * run.duration)} to ${span(b * run.duration)} of ${span(run.duration)}` : span(run.duration));
    canvas.setAttribute("aria-label", `Timeline of ${run.entryCount} entries and ${run.frameCount} public frames in ${span(run.duration)}`);
  }

  /** Stripes behind the rounds, each with its number. */
  #rounds(g, bottom) {
    const { run, color } = this;
    const starts = [];
    for (const i of run.events) if (run.kinds[i] === "round") starts.push(i);
    g.font = "10px system-ui, sans-serif";
    g.textBaseline = "alphabetic";
    starts.forEach((i, k) => {
      const from = this.x(this.partOf(i + 1));
      const to = k + 1 < starts.length ? this.x(this.partOf(starts[k + 1] + 1)) : this.width;
      if (to < 0 || from > this.width) return;
      if (k % 2) {
        g.fillStyle = color.band;
        g.fillRect(from, AXIS, to - from, bottom - AXIS + 4);
      }
      if (starts.length > 1 && to - Math.max(from, 0) > 52) {
        g.fillStyle = color.muted;
        g.fillText(`round ${run.rounds[i]}`, Math.max(from, 0) + 6, AXIS + LANE + GAP / 2 + 3);
      }
    });
  }

  #axis(g, bottom) {
    const { run, color } = this;
    g.strokeStyle = color.line;
    g.fillStyle = color.muted;
    g.font = "10px system-ui, sans-serif";
    g.textBaseline = "middle";
    const whole = this.byTime ? run.duration : run.rowCount;
    const [a, b] = this.view;
    const rough = ((b - a) * whole) / Math.max(2, this.width / 110);
    const size = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-3)));
    const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= rough) || rough;
    for (let at = Math.ceil((a * whole) / step) * step; at <= b * whole + 1e-9; at += step) {
      const x = Math.round(this.x(at / whole)) + 0.5;
      g.beginPath();
      g.moveTo(x, AXIS - 4);
      g.lineTo(x, bottom + 4);
      g.stroke();
      const word = this.byTime ? moment(at, step) : `${Math.round(at)}`;
      if (x + 4 + g.measureText(word).width < this.width) g.fillText(word, x + 4, AXIS / 2 - 1);
    }
  }

  /** Ticks of both lanes and the lines between, one pixel column at a time. */
  #lanes(g, top) {
    const { run, color, width } = this;
    const columns = Math.ceil(width) + 1;
    const up = new Uint16Array(columns), pub = new Uint16Array(columns), bad = new Uint8Array(columns);
    const { times, entryRow, counts, duration, rowCount } = run;
    const [a, b] = this.view, wide = (width - 2 * PAD) / (b - a), first = times[0];
    for (let i = 0; i < times.length; i++) {
      const part = this.byTime ? (times[i] - first) / duration : (entryRow[i] + 0.5) / rowCount;
      const at = Math.floor(PAD + (part - a) * wide);
      if (at < 0 || at >= width) continue;
      up[at]++;
      pub[at] += counts[i];
    }
    for (const i of run.events) {
      const kind = run.kinds[i], at = Math.floor(this.x(this.partOf(i + 1)));
      if (kind === "cancel" || (kind === "round_end" && !run.said[i].startsWith("ok"))) bad[at] = 1;
    }
    if (!this.byTime) this.#ordered(pub, width);
    const tick = (counts, y, stroke) => {
      g.fillStyle = stroke;
      for (let x = 0; x < columns; x++) {
        if (!counts[x]) continue;
        const tall = Math.min(LANE, 12 + 7 * Math.log2(1 + counts[x]));
        g.globalAlpha = Math.min(1, 0.5 + counts[x] * 0.15);
        g.fillRect(x - 0.75, y + LANE - tall, 1.5, tall);
      }
      g.globalAlpha = 1;
    };
    g.strokeStyle = color.line;
    for (const y of [top.up + LANE, top.pub + LANE]) {
      g.beginPath();
      g.moveTo(0, y + 0.5);
      g.lineTo(width, y + 0.5);
      g.stroke();
    }
    tick(up, top.up, color.up);
    tick(pub, top.pub, color.pub);
    g.fillStyle = color.muted;
    g.globalAlpha = 0.35;
    for (let x = 0; x < columns; x++) if (up[x] && pub[x] && this.byTime) g.fillRect(x - 0.25, top.up + LANE + 3, 0.5, GAP - 3);
    g.globalAlpha = 1;
    g.fillStyle = color.bad;
    for (let x = 0; x < columns; x++) if (bad[x]) g.fillRect(x - 1, top.up, 2, LANE);
  }

  /** In the scale of order every frame stands in its own row. */
  #ordered(pub, width) {
    pub.fill(0);
    const { run } = this;
    for (let row = 0; row < run.rowCount; row++) {
      if (run.rowFrame[row] === NONE) continue;
      const x = this.x((row + 0.5) / run.rowCount);
      if (x >= 0 && x < width) pub[Math.floor(x)]++;
    }
  }

  /** The entry and the frames of a row, lit, with the lines between them. */
  #cursor(g, row, top, stroke, height) {
    const { run, color } = this;
    if (row < 0 || row >= run.rowCount) return;
    const n = run.rowCause[row];
    const own = this.x(this.part(row));
    g.strokeStyle = stroke;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(Math.round(own) + 0.5, AXIS - 2);
    g.lineTo(Math.round(own) + 0.5, height);
    g.stroke();
    if (n === NONE) return;
    const x = this.x(this.partOf(n));
    g.fillStyle = color.up;
    g.fillRect(x - 2, top.up, 4, LANE);
    const first = run.firsts[n - 1], count = Math.min(run.counts[n - 1], 64);
    g.lineWidth = 1.5;
    for (let seq = first; seq < first + count && seq < run.frameCount; seq++) {
      const to = this.x(this.part(run.frameRow[seq]));
      g.strokeStyle = color.pub;
      g.beginPath();
      g.moveTo(x, top.up + LANE);
      g.bezierCurveTo(x, top.up + LANE + GAP * 0.6, to, top.pub - GAP * 0.6, to, top.pub);
      g.stroke();
      g.fillStyle = color.pub;
      g.fillRect(to - 2, top.pub, 4, LANE);
      if (this.byTime) break; // they all stand at one place
    }
    g.lineWidth = 1;
  }

  /** Elements for the calls; returns the rows that they take. */
  #bars() {
    const { run } = this;
    const end = run.entryCount;
    const found = run.calls.map(([key, tool, name, asked, ended, began, over, ok]) => ({
      from: this.partOf(asked), to: this.partOf(ended ?? end), own: began && this.byTime ? [began, over].map((t) => (t - run.times[0]) / run.duration) : null,
      word: key.startsWith("list") ? "list tools" : name || tool, kind: "gateway", ok, row: run.entryRow[(ended ?? asked) - 1] ?? 0,
      took: began ? over - began : null, open: !ended,
    }));
    for (const call of this.clientCalls.found) {
      const from = run.frameRow[call.first], to = call.last === null ? run.rowCount - 1 : run.frameRow[call.last];
      if (from === undefined || to === undefined) continue;
      found.push({
        from: this.part(from), to: this.part(to), own: null, word: call.name, kind: "client", ok: null, row: to,
        took: null, open: call.last === null,
      });
    }
    found.sort((a, b) => a.from - b.from);
    const ends = [];
    for (const bar of found) {
      let lane = ends.findIndex((at) => at <= bar.from);
      if (lane < 0) lane = Math.min(ends.length, MOST_BARS - 1);
      ends[lane] = Math.max(bar.to, ends[lane] ?? 0);
      bar.lane = lane;
    }
    const key = `${this.width} ${this.view} ${this.byTime} ${run.entryCount} ${run.rowCount} ${JSON.stringify(run.calls)} ${this.clientCalls.found.length}`;
    if (key !== this.barsKey) {
      this.barsKey = key;
      this.#place(by("bars"), found, (bar) => {
        if (this.x(bar.to) < 0 || this.x(bar.from) > this.width) return null;
        const left = Math.min(Math.max(-4, this.x(bar.from)), this.width - LEAST), right = Math.min(this.width + 4, this.x(bar.to));
        const button = el("button", `call ${bar.kind}${bar.ok === false ? " failed" : ""}${bar.open ? " open" : ""}`);
        button.type = "button";
        button.style.left = `${left}px`;
        button.style.width = `${Math.max(right - left, LEAST)}px`;
        button.style.top = `${bar.lane * BAR}px`;
        if (bar.own) {
          const ran = el("i", "ran");
          ran.style.left = `${Math.max(0, this.x(bar.own[0]) - left)}px`;
          ran.style.width = `${Math.max(2, this.x(bar.own[1]) - Math.max(left, this.x(bar.own[0])))}px`;
          button.append(ran);
        }
        const took = bar.took === null ? "" : ` · ${span(bar.took)}`;
        const who = bar.kind === "client" ? "the client's call" : "the gateway's call";
        const how = bar.open ? ", not over" : bar.ok === false ? ", failed" : "";
        button.append(el("span", "", `${bar.word}${took}`));
        button.title = `${bar.word}: ${who}${how}${took}`;
        button.setAttribute("aria-label", button.title);
        button.addEventListener("click", () => this.chosen(bar.row));
        return button;
      });
    }
    return ends.length;
  }

  /** Elements for the marks. */
  #marks() {
    const { run } = this;
    const found = [];
    for (const i of run.events) {
      const mark = markOf(run, i);
      if (mark) found.push({ ...mark, part: this.partOf(i + 1), row: run.entryRow[i] ?? 0 });
    }
    for (const mark of run.marks) {
      const row = Math.max(0, run.frameRow[mark.after] ?? 0);
      found.push({ what: mark.what, tone: mark.tone, part: this.part(row), row });
    }
    const last = run.rowCount - 1;
    if (run.state?.done && last >= 0) found.push({ what: run.state.status, tone: run.state.status === "completed" ? "good" : "trouble", part: this.part(last), row: last });
    const key = `${this.width} ${this.view} ${this.byTime} ${run.rowCount} ${found.length}`;
    if (key !== this.marksKey) {
      this.marksKey = key;
      found.sort((a, b) => a.part - b.part);
      const shown = found.slice(-MOST_MARKS);
      const dots = shown.map((mark) => this.x(mark.part));
      let taken = -Infinity; // up to where the words of a mark reach
      this.#place(by("marks"), shown, (mark, at) => {
        const x = this.x(mark.part);
        if (x < -2 || x > this.width + 2) return null;
        const button = el("button", `mark ${mark.tone}`);
        button.type = "button";
        button.style.left = `${x}px`;
        button.title = mark.what;
        button.setAttribute("aria-label", mark.what);
        const wide = 14 + mark.what.length * 5.6;
        const flip = x + wide > this.width;
        const [from, to] = flip ? [x - wide, x] : [x - 4, x + wide];
        // Words stand only where they cover neither another mark nor its words.
        if (from > taken && !dots.some((dot, other) => other !== at && dot > from - 5 && dot < to + 5)) {
          taken = to;
          button.append(el("span", flip ? "flip" : "", mark.what));
        }
        button.addEventListener("click", () => this.chosen(mark.row));
        return button;
      });
    }
    return found.length;
  }

  #place(box, found, make) {
    const focused = box.contains(document.activeElement) ? [...box.children].findIndex((c) => c.contains(document.activeElement)) : -1;
    box.replaceChildren();
    for (const [at, one] of found.entries()) {
      const button = make(one, at);
      if (!button) continue;
      const item = el("div", "", button);
      item.setAttribute("role", "listitem");
      box.append(item);
    }
    if (focused >= 0) box.children[Math.min(focused, box.children.length - 1)]?.firstChild.focus();
  }

  #listen() {
    let dragging = false;
    const at = (event) => event.clientX - this.plot.getBoundingClientRect().left;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!this.run?.rowCount || event.button) return;
      dragging = true;
      this.canvas.setPointerCapture(event.pointerId);
      this.chosen(this.rowAtX(at(event)));
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.run?.rowCount) return;
      const row = this.rowAtX(at(event));
      if (dragging) this.chosen(row);
      this.hovered(row);
    });
    this.canvas.addEventListener("pointerup", () => (dragging = false));
    this.canvas.addEventListener("pointerleave", () => this.hovered(-1));
    this.plot.addEventListener("wheel", (event) => {
      if (!this.run) return;
      event.preventDefault();
      const [a, b] = this.view;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan((event.deltaX || event.deltaY) / this.width);
      const part = a + (Math.max(0, at(event) - PAD) / (this.width - 2 * PAD)) * (b - a);
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(Math.max(part, 0), 1));
    }, { passive: false });
    by("by-time").addEventListener("click", () => this.scale(true));
    by("by-order").addEventListener("click", () => this.scale(false));
    by("zoom-in").addEventListener("click", () => this.zoom(0.5));
    by("zoom-out").addEventListener("click", () => this.zoom(2));
    by("zoom-fit").addEventListener("click", () => this.fit());
  }
}

/** A time on the axis, as exact as the steps are. */
function moment(ms, step) {
  if (step >= 200) return `${Number((ms / 1000).toFixed(1))} s`;
  return step >= 1 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}
