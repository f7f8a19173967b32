// The list of recent responses, which keeps itself up to date.
import { by, el, say } from "./dom.js";
import { API, json, Refused } from "./server.js";
import { ago, number, span, tail } from "./words.js";

const EVERY_MS = 1500; // a new response is seen within two seconds
const TIMES = 10; // but the gateway rests ten times as long as one list has cost it

export class Recent {
  /** `refused(error)` is called where the gateway does not want to tell. */
  constructor(refused) {
    this.items = new Map();
    this.refused = refused;
    document.addEventListener("visibilitychange", () => !document.hidden && this.look());
    by("recent").addEventListener("keydown", (pressed) => this.#walk(pressed));
  }

  /** Look now, and again after a while. */
  async look() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    const began = performance.now();
    let wait = EVERY_MS;
    try {
      this.#show(await json(`${API}?limit=100`));
      wait = Math.max(wait, TIMES * (performance.now() - began));
      this.refused(null);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return this.refused(error);
      this.refused(error);
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), wait);
  }

  choose(id) {
    this.chosen = id;
    for (const [own, item] of this.items) {
      if (own === id) item.link.setAttribute("aria-current", "true");
      else item.link.removeAttribute("aria-current");
    }
  }

  #show({ data, now, whole }) {
    const list = by("recent"), seen = new Set();
    data.forEach((one, place) => {
      seen.add(one.id);
      let item = this.items.get(one.id);
      if (!item) this.items.set(one.id, (item = this.#made(one.id)));
      const { status, link } = item;
      link.dataset.status = one.status;
      say(item.model, one.model || "…");
      say(status, one.status.replace("_", " "));
      say(item.id, tail(one.id));
      say(item.when, ago(now - one.created));
      const took = (one.done ? one.ended || now : now) - one.created;
      say(item.size, one.done && !one.ended ? `${number(one.frames)} frames` : `${number(one.frames)} frames · ${span(took)}`);
      if (list.children[place] !== item.element) list.insertBefore(item.element, list.children[place] || null);
    });
    for (const [id, item] of this.items) {
      if (seen.has(id)) continue;
      item.element.remove();
      this.items.delete(id);
    }
    say(by("recent-count"), whole ? number(data.length) : `${number(data.length)} of many`);
    by("recent-none").hidden = data.length > 0;
    this.choose(this.chosen);
  }

  #made(id) {
    const made = { status: el("span", "state"), model: el("b"), id: el("code"), when: el("span", "when"), size: el("span", "size") };
    made.link = el("a", "", el("span", "line", el("i", "dot"), made.model, made.when), el("span", "line", made.id, made.size), made.status);
    made.link.href = `#${id}`;
    made.element = el("li", "", made.link);
    return made;
  }

  /** Up and down go from one to the next. */
  #walk(pressed) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[pressed.key];
    if (!step) return;
    const links = [...by("recent").querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
    pressed.preventDefault();
    pressed.stopPropagation();
  }
}
