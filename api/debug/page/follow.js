// A response's public stream, followed like any client: from the beginning to its end, over whatever breaks in between.
//
// What is in the log already is read in pages first: an EventSource gives out all that has arrived in one go, and with
// thousands of events the page would stand still meanwhile. Then the stream is resumed after the last of them. Without a key this is the browser's own EventSource, which comes back by itself with `Last-Event-ID`. A key cannot be
// given to an EventSource, so with one it is a fetch that sends the same two headers. Both give each frame once, in order.
import { ask, key, of as debugOf, json, Refused } from "./server.js";
import { EVENTS, TERMINAL } from "./events.js";

const AGAIN_MS = [300, 1000, 2000, 4000];
// Between attempts where the browser has given up: a process that died is noticed by its balancer within seconds.

const PAGE = 500; // frames of one answer: read within a few ms

/**
 * Follow the stream of a response after frame `after`. `heard` is told of:
 *   frame(seq, type, data)  the next frame
 *   down(after)             the connection was lost after that frame
 *   resumed(after)          it goes on there, over another connection
 *   end(fault)              no more will come; `fault` is a text where it is not the terminal frame that ended it
 * Returns what stops it.
 */
export function follow(id, after, heard) {
  const self = { after, stopped: false, tries: 0, down: false, close: () => {}, timer: 0 };
  const address = () =>
    `v1/responses/${encodeURIComponent(id)}?stream=true&sse_ids=true` +
    (self.after >= 0 ? `&starting_after=${self.after}` : "");

  const got = (seq, type, data) => {
    if (self.stopped) return;
    if (seq <= self.after) return; // a keepalive repeats a number
    self.after = seq;
    self.tries = 0;
    heard.frame(seq, type, data);
  };
  const open = () => {
    if (!self.down || self.stopped) return;
    self.down = false;
    heard.resumed(self.after);
  };
  const lost = () => {
    if (self.down || self.stopped) return;
    self.down = true;
    heard.down(self.after);
  };
  const end = (fault) => {
    if (self.stopped) return;
    stop();
    heard.end(fault);
  };
  const again = () => {
    if (self.stopped) return;
    lost();
    const wait = AGAIN_MS[Math.min(self.tries++, AGAIN_MS.length - 1)];
    self.timer = setTimeout(async () => {
      // A stream that is refused says no more than that: the state says why.
      try {
        const state = await json(debugOf(id));
        if (state.done && self.after >= state.frames - 1) return end();
      } catch (error) {
        if (error instanceof Refused && error.status < 500) return end(error.message);
        return again();
      }
      if (!self.stopped) connect();
    }, wait);
  };
  const connect = async () => {
    try {
      const ended = await pages(self, id, got);
      open();
      if (ended) return end();
    } catch (error) {
      if (error instanceof Refused && error.status < 500) return end(error.message);
      return again();
    }
    if (self.stopped) return;
    if (key()) byFetch(self, address(), { got, open, end, again });
    else bySource(self, address(), { got, open, end, again, lost });
  };
  const stop = () => {
    self.stopped = true;
    clearTimeout(self.timer);
    self.close();
  };
  connect();
  return stop;
}

/** Read what the log holds after the last frame; whether that was the end of it. */
async function pages(self, id, got) {
  for (let more = true; more && !self.stopped;) {
    const page = await json(debugOf(id, `/frames?after=${self.after}&limit=${PAGE}`));
    let type = "";
    for (const frame of page.frames) {
      const end = frame.indexOf("\n");
      type = frame.slice("event: ".length, end);
      got(self.after + 1, type, frame.slice(end + "\ndata: ".length, -"\n\n".length));
    }
    if (TERMINAL.has(type)) return true;
    more = page.more;
  }
  return false;
}

function bySource(self, address, { got, open, end, again, lost }) {
  const source = new EventSource(address);
  self.close = () => source.close();
  source.onopen = open;
  source.onmessage = () => end(); // `[DONE]`, the only event without a type
  source.onerror = (event) => {
    if (event.data !== undefined) return end(faultOf(event.data)); // the gateway's own event of that name
    if (source.readyState === EventSource.CLOSED) return again();
    lost(); // it comes back by itself
  };
  const listen = (event) => got(Number(event.lastEventId), event.type, event.data);
  for (const type of EVENTS) source.addEventListener(type, listen);
}

async function byFetch(self, address, { got, open, end, again }) {
  const stopping = new AbortController();
  self.close = () => stopping.abort();
  const headers = self.after >= 0 ? { "last-event-id": String(self.after) } : {};
  try {
    const answer = await ask(address, { signal: stopping.signal, headers: { accept: "text/event-stream", ...headers } });
    open();
    if (answer.status === 204) return end();
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let held = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      held += decoder.decode(value, { stream: true });
      const blocks = held.split("\n\n");
      held = blocks.pop();
      for (const block of blocks) {
        const event = fields(block);
        if (event.type === "") return end();
        if (event.type === "error") return end(faultOf(event.data));
        got(event.id, event.type, event.data);
      }
    }
    again();
  } catch (error) {
    if (stopping.signal.aborted) return;
    if (error instanceof Refused && error.status < 500) return end(error.message);
    again();
  }
}

/** The fields of one block: frames of this gateway have one line each of `id`, `event` and `data`. */
function fields(block) {
  const found = { id: -1, type: "", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) found.data = line.slice(6);
    else if (line.startsWith("event: ")) found.type = line.slice(7);
    else if (line.startsWith("id: ")) found.id = Number(line.slice(4));
  }
  return found;
}

function faultOf(data) {
  try {
    return JSON.parse(data).message || "The stream ended with an error.";
  } catch {
    return "The stream ended with an error.";
  }
}
