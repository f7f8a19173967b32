// The response as a client saw it: its public frames, folded one by one, as the official clients do it.
//
// `Seen.at(seq)` gives the picture after any frame. Every so many frames a copy is kept, so that going anywhere costs no more
// than folding that many; `prepare` makes the copies ahead, a few ms at a time.
import { TERMINAL } from "./events.js";

const EVERY = 256; // frames between two copies: folding so many takes about 2 ms

class Picture {
  constructor() {
    this.seq = -1;
    this.response = null; // as the last lifecycle event told it
    this.items = []; // by output index
    this.ended = false;
    this.touched = -1; // the item that the last frame was about
    this.piece = ""; // what it added
    this.where = ""; // to which of the item's texts
  }

  copy() {
    const made = Object.assign(new Picture(), this);
    made.items = this.items.map((item) => item && { ...item, parts: item.parts.map((part) => part && { ...part }), summary: item.summary.map((part) => part && { ...part }) });
    return made;
  }

  fold(type, data) {
    this.seq++;
    this.touched = -1;
    this.piece = this.where = "";
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      return; // a gateway of another kind: the frame is listed, and says nothing here
    }
    if (event.response) {
      this.response = event.response;
      this.ended = TERMINAL.has(type);
      return;
    }
    const index = event.output_index;
    if (!Number.isInteger(index) || index < 0) return;
    this.touched = index;
    if (type === "response.output_item.added") {
      this.items[index] = { item: event.item, parts: [], summary: [], text: "", phase: "", done: false, notes: 0 };
      return;
    }
    const held = this.items[index];
    if (!held) return;
    const name = type.slice("response.".length);
    if (type === "response.output_item.done") {
      held.item = event.item;
      held.done = true;
    } else if (name === "output_text.annotation.added") {
      held.notes++;
    } else if (name.startsWith("content_part.")) {
      held.parts[event.content_index] = { kind: event.part.type, text: event.part.text ?? event.part.refusal ?? "" };
    } else if (name.startsWith("reasoning_summary_part.")) {
      held.summary[event.summary_index] = { kind: "summary", text: event.part.text ?? "" };
    } else if (name.startsWith("reasoning_summary_text.")) {
      this.#write(held.summary, event.summary_index, "summary", event);
    } else if (/^(output_text|refusal|reasoning_text)\./.test(name)) {
      this.#write(held.parts, event.content_index, name.split(".")[0], event);
    } else if (/\.(delta|done)$/.test(name)) {
      if (typeof event.delta === "string") {
        held.text += event.delta;
        this.piece = event.delta;
        this.where = "text";
      } else {
        held.text = event.arguments ?? event.input ?? event.code ?? held.text;
      }
    } else {
      held.phase = name.slice(name.lastIndexOf(".") + 1);
    }
  }

  #write(parts, at, kind, event) {
    const part = (parts[at] ??= { kind, text: "" });
    if (typeof event.delta === "string") {
      part.text += event.delta;
      this.piece = event.delta;
      this.where = `${kind === "summary" ? "summary" : "part"} ${at}`;
    } else {
      part.text = event.text ?? event.refusal ?? part.text;
    }
  }
}

export class Seen {
  constructor(run) {
    this.run = run;
    this.copies = [new Picture()]; // after frames -1, EVERY - 1, 2 * EVERY - 1, …
    this.last = null; // the picture that was asked for last: the next one is mostly one frame on
  }

  /** Make copies ahead for at most `ms`; whether there is more to do. */
  prepare(ms) {
    const until = performance.now() + ms;
    const { types, data } = this.run;
    while (this.copies.length * EVERY <= types.length) {
      const picture = this.copies[this.copies.length - 1].copy();
      for (let end = this.copies.length * EVERY; picture.seq + 1 < end;) {
        picture.fold(types[picture.seq + 1], data[picture.seq + 1]);
      }
      this.copies.push(picture);
      if (performance.now() > until) return true;
    }
    return false;
  }

  /** The picture after frame `seq`, or null while that is not prepared. */
  at(seq) {
    const { types, data } = this.run;
    let base = this.last && this.last.seq <= seq && seq - this.last.seq <= EVERY ? this.last : null;
    if (!base) {
      const copy = this.copies[Math.floor((seq + 1) / EVERY)];
      if (!copy) return null;
      base = copy.copy();
    }
    while (base.seq < seq) base.fold(types[base.seq + 1], data[base.seq + 1]);
    this.last = base;
    return base;
  }
}
