// The accumulator beside it: what the gateway itself knew after the entry that is chosen. Told by the gateway, which folds
// the input log again up to there; asked for at most so often, and only for the moment where the user stays.
import { by, el, press, say } from "./dom.js";
import { kindOf } from "./clientpane.js";
import { Sticky } from "./sticky.js";
import { facts, pretty, text } from "./texts.js";
import { json, of } from "./server.js";
import { bytes, number, short } from "./words.js";

const SETTLE_MS = 60; // a hand on the slider stays nowhere for so long
const KEPT = 50; // states that are remembered: going back and forth asks nobody
const MOST_ITEMS = 40;

export class MachinePane {
  constructor() {
    this.json = false;
    this.kept = new Map();
    this.wanted = 0;
    this.box = new Sticky(by("machine"));
    by("machine-json").addEventListener("click", () => {
      this.json = !this.json;
      press(by("machine-json"), this.json);
      if (this.state) this.#draw();
    });
  }

  reset() {
    this.kept.clear();
    this.wanted = 0;
    this.state = null;
    this.stopping?.abort();
    clearTimeout(this.timer);
    this.timer = 0;
    this.box.fill();
    say(by("machine-at"), "");
  }

  /** Show the state after entry `n` of a run. */
  show(run, n) {
    if (n === this.wanted || n < 1) return;
    this.wanted = n;
    this.run = run;
    by("machine").classList.add("stale");
    if (this.kept.has(n)) return this.#got(n, this.kept.get(n));
    if (!this.timer) this.timer = setTimeout(() => this.#ask(), SETTLE_MS);
  }

  async #ask() {
    const n = this.wanted, run = this.run;
    this.stopping = new AbortController();
    let pause = SETTLE_MS;
    try {
      const began = performance.now();
      const { state } = await json(of(run.id, `/state?after=${n}`), { signal: this.stopping.signal });
      pause = Math.max(pause, performance.now() - began); // never more than half of the gateway's time is ours
      if (run !== this.run) return;
      this.kept.set(n, state);
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
      this.#got(n, state);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.box.fill(el("p", "wrong", error.message));
      pause = 1000;
    } finally {
      this.timer = 0;
      if (run === this.run && this.wanted !== n) this.timer = setTimeout(() => this.#ask(), pause);
    }
  }

  #got(n, state) {
    this.state = state;
    say(by("machine-at"), `entry ${number(n)}`);
    by("machine").dataset.after = n;
    by("machine").classList.toggle("stale", n !== this.wanted);
    this.#draw();
  }

  #draw() {
    const { state } = this;
    this.box.fill(...(this.json ? [text(pretty(state))] : this.#cards(state)));
  }

  #cards(state) {
    const round = state.round, closed = new Map();
    for (const shown of state.shown) closed.set(`${shown.id}`, shown);
    const cards = [facts([
      ["phase", state.phase], ["status", state.status], ["next frame", number(state.next_seq)],
      ["round", round && `${round.number}, attempt ${state.attempt}`], ["gateway calls", state.calls || null],
      ["logs", `${bytes(state.input_bytes)} in, ${bytes(state.output_bytes)} out`],
      ["round's end", round?.result && [round.result.status, round.result.reason || round.result.code].filter(Boolean).join(": ")],
      ["put right", round && Object.entries(round.tolerated).filter(([, times]) => times).map(([what, times]) => `${what} × ${times}`).join(", ")],
    ])];
    for (const list of state.lists) {
      cards.push(el("article", "item call", el("header", "", el("b", "", "list of tools"), el("span", "name", list.label),
        el("span", "phase", list.answered ? "answered" : "waited for"))));
    }
    if (!round) return cards;
    const items = round.items, from = Math.max(0, items.length - MOST_ITEMS);
    if (from) cards.push(el("p", "faint", `${number(from)} items before these`));
    const calls = new Map(round.calls.map((call) => [call.slot, call]));
    for (const item of items.slice(from)) cards.push(this.#card(item, calls.get(item.slot)));
    return cards;
  }

  #card(item, call) {
    const phase = call ? (call.refusal ? "refused" : call.answered ? "answered" : "waits for its result") : item.ended;
    const card = el("article", `item ${kindOf(item.type)}${item.held ? " held" : ""}`,
      el("header", "", el("b", "", item.type.replaceAll("_", " ")), item.name ? el("span", "name", item.name) : "",
        item.held ? el("span", "phase held", `held: ${item.held}`) : "", el("span", "phase", phase),
        el("code", "", item.ids.map(short).join(" "))));
    for (const part of item.parts || []) {
      if (part.kind !== "output_text") card.append(el("p", "label", part.kind.replaceAll("_", " ")));
      card.append(text(part.text));
    }
    if (item.text) card.append(text(item.text));
    return card;
  }
}
