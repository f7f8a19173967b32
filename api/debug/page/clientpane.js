// What the client saw: the response as its public frames had built it up to the moment that is chosen.
import { by, el, press, say } from "./dom.js";
import { Sticky } from "./sticky.js";
import { facts, pretty, text } from "./texts.js";
import { number, short } from "./words.js";

const MOST_ITEMS = 40; // cards: the last ones, and the one that was touched

export class ClientPane {
  constructor() {
    this.json = false;
    this.box = new Sticky(by("client"));
    by("client-json").addEventListener("click", () => {
      this.json = !this.json;
      press(by("client-json"), this.json);
      if (this.picture) this.#draw();
    });
  }

  reset() {
    this.picture = null;
    this.box.fill();
  }

  /** `picture` is null while it is being prepared. */
  show(picture, seq) {
    say(by("client-at"), seq < 0 ? "nothing yet" : `frame ${number(seq)}`);
    if (!picture) return by("client").classList.add("stale");
    by("client").classList.remove("stale");
    if (this.picture && this.seq === seq) return; // what was opened in it stays open
    this.picture = picture;
    this.seq = seq;
    this.#draw();
  }

  #draw() {
    const { picture } = this;
    if (!this.json) return this.box.fill(...this.#cards(picture));
    const items = picture.items.map((held) => held && held.item);
    this.box.fill(text(pretty(picture.ended ? picture.response : { ...picture.response, output: items })));
  }

  #cards(picture) {
    const { response, items } = picture;
    if (!response) return [el("p", "faint", "The client has not seen anything yet.")];
    const usage = response.usage;
    const cards = [facts([
      ["status", response.status], ["model", response.model],
      ["tokens", usage && `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out`],
      ["incomplete", response.incomplete_details?.reason],
      ["error", response.error && `${response.error.code}: ${response.error.message}`],
    ])];
    const from = Math.max(0, items.length - MOST_ITEMS);
    const shown = [...items.keys()].filter((at) => at >= from || at === picture.touched);
    if (shown.length < items.length) cards.push(el("p", "faint", `${number(items.length - shown.length)} items before these`));
    for (const at of shown) if (items[at]) cards.push(this.#card(items[at], at, picture));
    return cards;
  }

  #card(held, at, picture) {
    const { item } = held, touched = at === picture.touched;
    const name = [item.server_label, item.name].filter(Boolean).join(" / ");
    const phase = held.done ? item.status || "done" : held.phase || item.status || "";
    const card = el("article", `item ${kindOf(item.type)}${touched ? " touched" : ""}`,
      el("header", "", el("b", "", item.type.replaceAll("_", " ")), name ? el("span", "name", name) : "",
        el("span", `phase ${held.done ? "done" : ""}`, phase.replaceAll("_", " ")), el("code", "", short(item.id || ""))));
    const piece = (where) => (touched && picture.where === where ? picture.piece : "");
    held.summary.forEach((part, n) => part && card.append(label("summary"), text(part.text, piece(`summary ${n}`))));
    held.parts.forEach((part, n) => {
      if (!part) return;
      if (part.kind !== "output_text") card.append(label(part.kind.replaceAll("_", " ")));
      card.append(text(part.text, piece(`part ${n}`)));
    });
    const said = held.text || item.arguments || item.input || "";
    if (said) card.append(text(said, piece("text")));
    const action = item.action && (item.action.query || item.action.queries?.join(", "));
    if (action && !said) card.append(text(action));
    if (held.notes) card.append(label(`${held.notes} annotation${held.notes > 1 ? "s" : ""}`));
    if (typeof item.output === "string") card.append(label("output"), text(item.output));
    if (item.error) card.append(label("error"), text(typeof item.error === "string" ? item.error : pretty(item.error)));
    if (Array.isArray(item.tools)) card.append(text(item.tools.map((tool) => tool.name).join("\n")));
    return card;
  }
}

const label = (word) => el("p", "label", word);

export function kindOf(type) {
  if (type === "message") return "message";
  if (type === "reasoning") return "reasoning";
  return "call";
}
