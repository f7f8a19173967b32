// One response as the page holds it: both logs, and which public frame came from which entry.
//
// Entries come from the debug API (`Run.entries`), frames from the public stream (`Run.frame`), each in order and whole.
// `weave` lays them side by side in rows: an entry with the first frame that it brought, then a row for each further one.
// A row is a moment: the state after its entry, and what a client had seen after its frame. Numbers of entries begin at 1
// and those of frames at 0, as in the logs.

/** What stands in `rowEntry` and `rowFrame` where a row has none. */
export const NONE = -1;

export class Run {
  constructor(id) {
    this.id = id;
    // Entries, by number - 1.
    this.kinds = [];
    this.times = [];
    this.rounds = [];
    this.attempts = [];
    this.sizes = [];
    this.names = [];
    this.said = [];
    this.counts = []; // public frames of each
    this.firsts = []; // number of the first of them
    this.events = []; // places (number - 1) of those that are no upstream frame: there are few
    // Frames, by number.
    this.types = [];
    this.data = [];
    // Rows.
    this.rowEntry = []; // number of the entry that stands in the row
    this.rowFrame = [];
    this.rowCause = []; // number of the entry whose row it is: for further frames the one above
    this.entryRow = []; // by number - 1
    this.frameRow = []; // by number
    this.wovenEntries = 0; // entries whose frames are all here
    this.wovenRows = 0;
    this.wovenOf = -1; // entries that were there when rows were laid last
    this.laid = 0; // frames that stand in a row
    this.calls = []; // as the debug API tells them
    this.state = null;
    this.marks = []; // {after, what}: what this page saw of its own connection, and of translators
  }

  get entryCount() { return this.kinds.length; }
  get frameCount() { return this.types.length; }
  get rowCount() { return this.rowEntry.length; }

  /** Take rows of the debug API in; those that are known already are passed over. */
  take(rows) {
    for (const [n, kind, t, round, attempt, size, name, said, frames] of rows) {
      if (n !== this.kinds.length + 1) continue;
      const at = this.firsts.length;
      this.firsts.push(at ? this.firsts[at - 1] + this.counts[at - 1] : 0);
      if (kind !== "frame") this.events.push(this.kinds.length);
      this.kinds.push(kind);
      this.times.push(t);
      this.rounds.push(round);
      this.attempts.push(attempt);
      this.sizes.push(size);
      this.names.push(kind === "frame" ? name : kind);
      this.said.push(said);
      this.counts.push(frames);
    }
  }

  /** Take the next frame of the public stream in. Returns whether it was the next one. */
  frame(seq, type, data) {
    if (seq !== this.types.length) return false;
    this.types.push(type);
    this.data.push(data);
    return true;
  }

  /** Lay out what has come since the last time. */
  weave() {
    const { rowEntry, rowFrame, rowCause, entryRow, frameRow } = this;
    const known = this.types.length;
    if (this.wovenOf === this.kinds.length && known >= this.linked && this.laid >= this.linked) {
      this.#trail(this.laid, known); // only frames have come, and none that an entry waited for
      return;
    }
    rowEntry.length = rowFrame.length = rowCause.length = this.wovenRows;
    let settled = true;
    for (let i = this.wovenEntries; i < this.kinds.length; i++) {
      const first = this.firsts[i], end = first + this.counts[i];
      entryRow[i] = rowEntry.length;
      rowEntry.push(i + 1);
      rowCause.push(i + 1);
      rowFrame.push(first < Math.min(end, known) ? first : NONE);
      if (first < end && first < known) frameRow[first] = rowEntry.length - 1;
      for (let seq = first + 1; seq < end && seq < known; seq++) {
        frameRow[seq] = rowEntry.length;
        rowEntry.push(NONE);
        rowCause.push(i + 1);
        rowFrame.push(seq);
      }
      settled = settled && end <= known;
      if (settled) {
        this.wovenEntries = i + 1;
        this.wovenRows = rowEntry.length;
      }
    }
    this.wovenOf = this.kinds.length;
    this.laid = Math.min(this.linked, known);
    this.#trail(this.linked, known);
  }

  /** The stream may be ahead of what was folded for this page: the cause of these frames is told in a moment. */
  #trail(from, to) {
    for (let seq = from; seq < to; seq++) {
      this.frameRow[seq] = this.rowEntry.length;
      this.rowEntry.push(NONE);
      this.rowCause.push(NONE);
      this.rowFrame.push(seq);
    }
    this.laid = Math.max(this.laid, to);
  }

  /** Frames whose entry is known. */
  get linked() {
    const last = this.firsts.length - 1;
    return last < 0 ? 0 : this.firsts[last] + this.counts[last];
  }

  /** The number of the last frame that a client had seen at a row, -1 for none. */
  seen(row) {
    for (let at = Math.min(row, this.rowCount - 1); at >= 0; at--) {
      if (this.rowFrame[at] !== NONE) return this.rowFrame[at];
      // Rows of an entry without frames are single: the one before tells, found by the numbers where those are known.
      const n = this.rowEntry[at];
      if (n > 0) return Math.min(this.firsts[n - 1], this.frameCount) - 1;
    }
    return -1;
  }

  /** The number of the entry that a row's state is after. */
  after(row) {
    const n = this.rowCause[Math.min(row, this.rowCount - 1)];
    return n === undefined || n === NONE ? this.entryCount : n;
  }

  /** When a row happened, in ms from the first entry; the log tells when the entry was written. */
  time(row) {
    const n = this.after(row);
    return n > 0 ? this.times[n - 1] - this.times[0] : 0;
  }

  /** The row in which a moment is found again after weaving. */
  rowOf(n, seq) {
    if (seq >= 0 && seq < this.frameCount) {
      const row = this.frameRow[seq];
      if (row !== undefined && (n <= 0 || this.rowCause[row] === n || this.rowCause[row] === NONE)) return row;
    }
    return n > 0 && n <= this.entryRow.length ? this.entryRow[n - 1] : 0;
  }

  /** The last row at or before a time. */
  rowAt(ms) {
    let low = 0, high = this.times.length - 1;
    const wanted = ms + (this.times[0] || 0);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    const next = this.entryRow[low + 1];
    return next === undefined ? Math.max(0, this.rowCount - 1) : next - 1;
  }

  /** How long all of it took, in ms. */
  get duration() {
    const last = this.times.length - 1;
    return last < 0 ? 0 : Math.max(this.times[last] - this.times[0], 1);
  }
}

/** What an entry that is no frame means for the run, for the lane of marks; null for those that mean nothing of their own. */
export function markOf(run, i) {
  const said = run.said[i];
  switch (run.kinds[i]) {
    case "request": return { what: "request", tone: "calm" };
    case "round": return run.rounds[i] > 1 ? { what: `round ${run.rounds[i]}`, tone: "calm" } : null;
    case "attempt": return run.attempts[i] > 1 ? { what: `attempt ${run.attempts[i]}: ingest taken over`, tone: "trouble" } : null;
    case "opened": return { what: "upstream opened", tone: "calm" };
    case "round_end":
      if (said.startsWith("ok")) return null;
      return { what: said.startsWith("lost") ? "upstream's reader lost" : `upstream ended: ${said}`, tone: "trouble" };
    case "cancel": return { what: `cancel: ${said}`, tone: "trouble" };
    default: return null;
  }
}

/** The calls that the client runs, from the public frames: where each was announced and where it was whole. */
export class ClientCalls {
  constructor(run) {
    this.run = run;
    this.seen = 0;
    this.found = []; // {index, name, kind, first, last}
    this.open = new Map();
  }

  /** Look at the frames that have come since. */
  look() {
    const { types, data } = this.run;
    for (; this.seen < types.length; this.seen++) {
      const type = types[this.seen];
      if (type !== "response.output_item.added" && type !== "response.output_item.done") continue;
      if (!/"type":"(function|custom_tool)_call"/.test(data[this.seen])) continue;
      const { output_index: index, item } = JSON.parse(data[this.seen]);
      if (item.type !== "function_call" && item.type !== "custom_tool_call") continue;
      if (type.endsWith("added")) {
        const call = { index, name: item.name, kind: item.type, first: this.seen, last: null };
        this.open.set(index, call);
        this.found.push(call);
      } else if (this.open.has(index)) {
        this.open.get(index).last = this.seen;
      }
    }
  }
}
