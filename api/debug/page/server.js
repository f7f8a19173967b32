// Asking the gateway. With a key every request carries it in its header; a key never stands in an address.

const KEY = "respool-debug-key";
export const API = "debug/api/responses";

export const key = () => sessionStorage.getItem(KEY);
export const keep = (value) => sessionStorage.setItem(KEY, value);
export const forget = () => sessionStorage.removeItem(KEY);

/** What the gateway said no with. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** A GET. Throws Refused for an answer that is no success, TypeError where nobody answers. */
export async function ask(path, { signal, headers } = {}) {
  const own = key() ? { authorization: `Bearer ${key()}` } : {};
  const answer = await fetch(path, { signal, headers: { ...own, ...headers }, cache: "no-store" });
  if (answer.ok) return answer;
  let message = `The gateway answered ${answer.status}.`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    // Whoever stands in front of the gateway answers in a form of its own: the status says enough.
  }
  throw new Refused(answer.status, message);
}

export const json = async (path, options) => (await ask(path, options)).json();
export const raw = async (path, options) => new Uint8Array(await (await ask(path, options)).arrayBuffer());
export const of = (id, rest = "") => `${API}/${encodeURIComponent(id)}${rest}`;

/** Save what an address gives as a file: with a key in the header no plain link could. */
export async function download(path, name) {
  const address = URL.createObjectURL(await (await ask(path)).blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser has begun to save it by then
}
