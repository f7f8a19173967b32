// The page: one response at a time, chosen by the address (`#resp_…`), and one moment of it, which all parts show.
import { BytesPane } from "./bytespane.js";
import { ClientPane } from "./clientpane.js";
import { Seen } from "./client.js";
import { by, el, press, say } from "./dom.js";
import { Filter } from "./filter.js";
import { follow } from "./follow.js";
import { keys } from "./keys.js";
import { Ledger } from "./ledger.js";
import { MachinePane } from "./machinepane.js";
import { Recent } from "./recent.js";
import { ClientCalls, NONE, Run } from "./run.js";
import { download, json, of, Refused } from "./server.js";
import { signIn, signOut } from "./signin.js";
import { Timeline } from "./timeline.js";
import { replay } from "./verdict.js";
import { bytes, number, span } from "./words.js";

const SOON_MS = 250; // between two looks at the input log while frames come
const QUIET_MS = 1000; // while none come: a response may wait for its upstream or a tool
const TIMES = 4; // the gateway rests four times as long as a look has cost it
const SLICE_MS = 8; // of preparing ahead, between two pictures
const BETWEEN_MS = 50; // at least, between two pictures of what came by itself; what the user does is shown at once
const ON = 20; // rows of a page

const page = {
  run: null, seen: null, calls: null, row: 0, side: undefined, following: true, stop: () => {}, timer: 0, playing: 0,
  loading: false, dirty: false, live: "", wide: null, updated: 0,
};

const chosen = (row, side) => { letGo(); choose(row, side); };
const hovered = (row) => { timeline.point(row); ledger.point(row); };
const timeline = new Timeline({ chosen, hovered });
const ledger = new Ledger({ chosen, hovered });
const filter = new Filter(() => { lay(); ledger.move(page.row); });
const clientPane = new ClientPane(), machinePane = new MachinePane(), bytesPane = new BytesPane();
const recent = new Recent((error) => {
  if (error instanceof Refused && error.status === 401) signIn().then(() => recent.look());
  else notice(error ? `The gateway does not answer: ${error.message}` : "", "list");
});

// ---- what is told at the top

const notices = new Map();
function notice(text, from) {
  notices.set(from, text);
  say(by("notice"), [...notices.values()].filter(Boolean)[0] || "");
}

// ---- a response is chosen

function route() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (id === "run") return; // the link that skips the list
  if (page.run?.id === id) return;
  page.stop();
  clearTimeout(page.timer);
  pause();
  notice("", "stream");
  recent.choose(id);
  by("nothing").hidden = Boolean(id);
  by("one").hidden = !id;
  document.title = id ? `${id}: Respool debug` : "Respool: debug";
  page.run = null;
  if (id) open(id);
}

async function open(id) {
  const run = (page.run = new Run(id));
  page.seen = new Seen(run);
  page.calls = new ClientCalls(run);
  page.row = 0;
  page.side = undefined;
  page.wide = null;
  run.marks = kept(id);
  filter.clear();
  machinePane.reset();
  bytesPane.reset();
  clientPane.reset();
  warn("");
  say(by("rid"), id);
  by("facts").replaceChildren();
  live("loading");
  setFollowing(true);
  timeline.show(run, page.calls);
  ledger.show(run, null);
  try {
    page.wide = await json(of(id));
  } catch (error) {
    if (page.run !== run) return;
    live("gone");
    return warn(error.message);
  }
  if (page.run !== run) return;
  run.state = page.wide;
  facts();
  // A reload is a resume like any other, only that the page has to read what it had before.
  page.stop = follow(id, -1, {
    frame: (seq, type, data) => {
      if (page.run !== run) return;
      run.frame(seq, type, data);
      changed();
    },
    down: (after) => page.run === run && (live("lost"), mark(run, after, `connection lost after frame ${after}`, "trouble")),
    resumed: (after) => page.run === run && (live("live"), mark(run, after, `resumed after frame ${after}`, "good")),
    end: (fault) => {
      if (page.run !== run) return;
      live(fault ? "broken" : "ended");
      if (fault) warn(fault);
      look();
    },
  });
  live("live");
  look();
}

/** Marks of this tab: they outlive a reload, since no log holds them. */
function kept(id) {
  try {
    return JSON.parse(sessionStorage.getItem(`respool-marks-${id}`)) || [];
  } catch {
    return [];
  }
}

function mark(run, after, what, tone) {
  run.marks.push({ after, what, tone });
  sessionStorage.setItem(`respool-marks-${run.id}`, JSON.stringify(run.marks.slice(-50)));
  notice(what, "stream");
  changed();
}

/** Read on in the input log: pages while there are more, then again and again until the response has ended. */
async function look() {
  const run = page.run;
  clearTimeout(page.timer);
  if (!run) return;
  if (page.loading) return void (page.timer = setTimeout(look, SOON_MS));
  page.loading = true;
  let wait = SOON_MS;
  try {
    const began = performance.now(), before = run.entryCount;
    const found = await json(of(run.id, `/log?after=${before}`));
    if (page.run !== run) return;
    translators(run, found.state);
    run.take(found.rows);
    run.calls = found.calls;
    run.state = found.state;
    changed();
    facts();
    if (found.more) wait = 0;
    else if (found.state.done && run.entryCount >= found.state.entries) wait = run.frameCount >= found.state.frames ? -1 : SOON_MS;
    else wait = Math.max(run.entryCount === before ? QUIET_MS : SOON_MS, TIMES * (performance.now() - began));
  } catch (error) {
    if (page.run !== run) return;
    if (error instanceof Refused && error.status < 500) {
      live("gone");
      return warn(error.message);
    }
    wait = QUIET_MS;
  } finally {
    page.loading = false;
    if (page.run !== run) look();
    else if (wait < 0) finished(run);
    else page.timer = setTimeout(look, wait);
  }
}

/** Whether another process has taken the translation over since the last look: the log does not say, the state counts. */
function translators(run, state) {
  const before = run.state?.translators;
  if (before && state.translators > before) mark(run, run.frameCount - 1, "translator taken over", "trouble");
}

function finished(run) {
  if (run.state.done && run.linked !== run.frameCount) {
    warn(`This code makes ${number(run.linked)} frames of the input log, and ${number(run.frameCount)} were stored: the lines between both logs are those of this code. Replay shows the first difference.`);
  }
}

// ---- what is shown changes: once a picture

function changed() {
  by("one").dataset.drawn = "false";
  if (page.dirty) return;
  page.dirty = true;
  setTimeout(() => requestAnimationFrame(() => {
    page.dirty = false;
    page.updated = performance.now();
    if (page.run) update();
  }), Math.max(0, page.updated + BETWEEN_MS - performance.now()));
}

function update() {
  const run = page.run;
  const n = run.rowCount ? run.after(page.row) : 0, seq = run.rowCount ? run.seen(page.row) : -1;
  run.weave();
  page.calls.look();
  by("scrubber").max = Math.max(0, run.rowCount - 1);
  by("one").dataset.frames = run.frameCount;
  by("one").dataset.entries = run.entryCount;
  by("one").dataset.linked = Math.min(run.linked, run.frameCount);
  lay();
  filter.list(run);
  choose(page.following ? run.rowCount - 1 : run.rowOf(n, seq));
  by("one").dataset.drawn = "true";
  prepare();
}

/** Fold ahead, a few ms at a time, so that going anywhere is quick. */
function prepare() {
  if (page.preparing) return;
  page.preparing = true;
  requestAnimationFrame(() => {
    page.preparing = false;
    if (!page.seen) return;
    const more = page.seen.prepare(SLICE_MS);
    if (by("client").classList.contains("stale")) panes();
    if (more) prepare();
  });
}

function lay() {
  if (page.run) ledger.show(page.run, filter.rows(page.run));
}

/** Go to a row: every part shows that moment. */
function choose(row, side) {
  const run = page.run;
  if (!run?.rowCount) return;
  page.row = Math.min(Math.max(row, 0), run.rowCount - 1);
  if (side) page.side = side;
  const scrubber = by("scrubber");
  if (Number(scrubber.value) !== page.row) scrubber.value = page.row;
  const n = run.after(page.row), seq = run.seen(page.row);
  const moment = `entry ${number(n)} of ${number(run.entryCount)} · ${seq < 0 ? "no frame yet" : `frame ${number(seq)}`} · ${span(run.time(page.row))}`;
  say(by("moment"), moment);
  scrubber.setAttribute("aria-valuetext", moment);
  by("one").dataset.seq = seq;
  by("one").dataset.after = n;
  timeline.move(page.row);
  ledger.move(page.row);
  soon();
}

/** The panes follow once a picture, however often the moment changes in between. */
function soon() {
  if (page.paned) return;
  page.paned = true;
  requestAnimationFrame(() => {
    page.paned = false;
    panes();
  });
}

function panes() {
  const run = page.run;
  if (!run?.rowCount) return;
  const n = run.after(page.row), seq = run.seen(page.row);
  clientPane.show(page.seen.at(seq), seq);
  machinePane.show(run, Math.min(n, run.entryCount));
  bytesPane.show(run, run.rowCause[page.row], run.rowFrame[page.row], page.side);
}

function facts() {
  const run = page.run, state = run.state, wide = page.wide;
  const took = (state.done ? state.ended || run.times[run.times.length - 1] : state.now) - state.created;
  const pairs = [
    ["model", wide.model], ["upstream", `${wide.upstream.id} (${wide.upstream.api})`],
    [state.done ? "took" : "runs", span(Math.max(0, took || 0))],
    ["input", `${number(state.entries)} entries, ${bytes(state.in_bytes)}`],
    ["output", `${number(state.frames)} frames, ${bytes(state.out_bytes)}`],
    ["rounds", String(state.round)],
    ["translators", state.translators > 1 ? `${state.translators}, one after another; the log does not say when` : null],
    ["continues", wide.previous_response_id],
    ["kept", state.sealed ? "packed" : null],
    ["tools", wide.tools.map((tool) => tool.name || tool.type).join(", ") || null],
  ];
  const list = by("facts");
  const shown = pairs.filter(([, value]) => value);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(([name, value], at) => {
    const box = list.children[at] || list.appendChild(el("div", "", el("dt"), el("dd")));
    say(box.children[0], name);
    say(box.children[1], value);
  });
  say(by("status"), state.status.replace("_", " "));
  by("status").dataset.status = state.status;
}

const FOLLOWS = { live: "Following", lost: "Reconnecting", loading: "Loading" };

function live(word) {
  page.live = word;
  by("one").dataset.live = word;
  say(by("follow-word"), (page.following && FOLLOWS[word]) || "Follow");
}

function warn(text) {
  by("warning").hidden = !text;
  say(by("warning"), text);
}

function setFollowing(on) {
  page.following = on;
  press(by("follow"), on);
  live(page.live);
}

/** The user goes somewhere: the newest frame is not followed any more. */
function letGo() {
  setFollowing(false);
  pause();
}

// ---- playing with the original timing

function pause() {
  if (!page.playing) return;
  cancelAnimationFrame(page.playing);
  page.playing = 0;
  say(by("play"), "▶");
  by("play").setAttribute("aria-label", "Play with the original timing");
}

function play() {
  const run = page.run;
  if (!run?.rowCount) return;
  if (page.playing) return pause();
  letGo();
  if (page.row >= run.rowCount - 1) choose(0);
  say(by("play"), "❚❚");
  by("play").setAttribute("aria-label", "Stop playing");
  const origin = performance.now() - run.time(page.row);
  const step = (now) => {
    if (page.run !== run) return;
    const row = run.rowAt(now - origin);
    if (row > page.row) choose(row);
    if (page.row >= run.rowCount - 1) return pause();
    page.playing = requestAnimationFrame(step);
  };
  page.playing = requestAnimationFrame(step);
}

// ---- controls

const go = (by_) => () => { letGo(); choose(ledger.step(by_)); };
const seek = (step, fits) => () => {
  const run = page.run;
  for (let row = page.row + step; run && row >= 0 && row < run.rowCount; row += step) {
    if (fits(run, row)) return chosen(row);
  }
};
const isFrame = (run, row) => run.rowFrame[row] !== NONE;
const isMark = (run, row) => run.rowEntry[row] !== NONE && run.kinds[run.rowEntry[row] - 1] !== "frame";
const startReplay = () => page.run && replay(page.run.id, (n, seq) => chosen(page.run.rowOf(n, seq)));
const startExport = () => page.run && download(of(page.run.id, "/export"), `${page.run.id}.respool`).catch((error) => warn(error.message));
const help = () => by("help").showModal();
function toggleFollow() {
  if (page.following) return setFollowing(false);
  pause();
  setFollowing(true);
  if (page.run) choose(page.run.rowCount - 1);
}

keys({
  next: go(1), back: go(-1), pageOn: go(ON), pageBack: go(-ON), first: go(-Infinity), last: go(Infinity),
  nextFrame: seek(1, isFrame), backFrame: seek(-1, isFrame), nextMark: seek(1, isMark), backMark: seek(-1, isMark),
  play, follow: toggleFollow, find: () => by("find").focus(), scale: () => timeline.scale(!timeline.byTime),
  zoomIn: () => timeline.zoom(0.5), zoomOut: () => timeline.zoom(2), fit: () => timeline.fit(),
  replay: startReplay, export: startExport, help,
});
by("scrubber").addEventListener("input", () => chosen(Number(by("scrubber").value)));
by("play").addEventListener("click", play);
by("follow").addEventListener("click", toggleFollow);
by("replay").addEventListener("click", startReplay);
by("export").addEventListener("click", startExport);
by("help-open").addEventListener("click", help);
by("help-close").addEventListener("click", () => by("help").close());
by("verdict-close").addEventListener("click", () => by("verdict").close());
by("sign-out").addEventListener("click", signOut);
by("skip").addEventListener("click", (pressed) => { pressed.preventDefault(); by("run").focus(); });
by("copy").hidden = !navigator.clipboard; // only where the browser trusts the connection
by("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(page.run.id);
  say(by("copy"), "Copied");
  setTimeout(() => say(by("copy"), "Copy"), 1500);
});
addEventListener("hashchange", route);

try {
  await signIn();
  recent.look();
  route();
} catch (error) {
  notice(error.message, "start");
}
