// Numbers and events in words.

const count = new Intl.NumberFormat("en");

export const number = (n) => count.format(n);

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

/** A duration of ms: 0.042 s, 3.10 s, 2:05. */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} min`;
}

/** How long ago. */
export function ago(ms) {
  if (ms < 2_000) return "now";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`;
  return `${Math.floor(ms / 3_600_000)} h ago`;
}

/** An id's beginning and end, by which people know it. */
export const short = (id) => (id.length > 16 ? `${id.slice(0, 9)}…${id.slice(-4)}` : id);

/** The part of a response's id by which it is known in a list. */
export const tail = (id) => `${id.slice(5, 11)}…${id.slice(-4)}`;

/** An event's type without what all of them begin with. */
export const event = (type) => type.replace(/^response\./, "");

/** The same for a narrow column: without the words that the rest of the name says again. */
export const brief = (type) =>
  event(type).replace(/^(output_(?=item|text)|function_call_|custom_tool_call_|reasoning_(?=summary))/, "");

/** One line of a text: line ends and other control characters as pictures. */
export function line(text) {
  return text.replace(/[\u0000-\u001f\u007f]/g, (c) =>
    c === "\n" ? "⏎" : String.fromCharCode(c === "\u007f" ? 0x2421 : 0x2400 + c.charCodeAt(0)));
}

// Characters that change the direction of a text, or that nobody sees: in raw bytes they must not work.
const UNSEEN = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u061c]/g;

/** Raw text as it is, but with what would hide or turn shown by its number. */
export function plain(text) {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) =>
      c === "\r" ? "␍" : String.fromCharCode(c === "\u007f" ? 0x2421 : 0x2400 + c.charCodeAt(0)))
    .replace(UNSEEN, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The two ends of a long text, and how much is left out between them. */
export function ends(text, most) {
  if (text.length <= most) return [text, 0, ""];
  const head = Math.floor(most / 4);
  return [text.slice(0, head), text.length - most, text.slice(text.length - (most - head))];
}
