// The page: follows /events, remembers figures, and shows them.

import { Queue, chart } from "./drawing.js";
import { History, bits, bytes, gained, number, perSecond, quantile, time } from "./history.js";

const SIZES = { "<=1K": "up to 1 kB", "<=10K": "1 to 10 kB", "<=100K": "10 to 100 kB", "<=1M": "100 kB to 1 MB", ">1M": "over 1 MB" };
const POINTS = 60;
const MOST_ROWS = 10;
/** What is read out changes this often at most. */
const READ_OUT_MS = 20_000;
const RETRY_MS = [500, 1000, 2000, 5000];

const get = (id) => document.getElementById(id);
const page = {
  history: new History(),
  queue: new Queue(get("queue")),
  stats: null,
  flows: null,
  isPaused: false,
  minutes: 1,
  readOutAt: -Infinity,
};

/** An element with text or children, and attributes. */
function element(name, attributes = {}, ...children) {
  const own = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) own.setAttribute(key, "");
    else if (value !== false && value !== null) own.setAttribute(key, value);
  }
  own.append(...children);
  return own;
}

/** Sets a text where it is another: what is the same is not read out again. */
function say(id, text) {
  const own = get(id);
  if (own.textContent !== text) own.textContent = text;
}

/** A bar as wide as a part of the whole; a policy without inline styles wants it so. */
function meter(part, label) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "meter");
  svg.setAttribute("viewBox", "0 0 100 6");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  for (const [name, width] of [["track", 100], ["fill", Math.max(0, Math.min(1, part)) * 100]]) {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    rect.setAttribute("class", name);
    rect.setAttribute("width", width);
    rect.setAttribute("height", 6);
    svg.append(rect);
  }
  return svg;
}

const ms = () => page.minutes * 60_000;

/** The first and the last figures of the range. */
function span() {
  const { last } = page.history;
  return [page.history.at(last.at - ms()), last];
}

function showAbout({ version, uplink, stage }) {
  const rate = { fixed: "fixed rate", auto: "rate found", unlimited: "no rate" }[uplink.rate];
  const order = uplink.is_paced ? `${uplink.policy}, ${rate}` : "responses are not paced";
  say("about", `${version} · ${location.host} · ${order}`);
  if (!page.isPaused) state(stage === "serving" ? "serving" : "draining");
}

const STATES = { serving: "Serving", draining: "Draining", paused: "Paused", lost: "Not reached", full: "Too many watch", locked: "Locked", waiting: "Connecting" };

function state(name) {
  get("state").dataset.state = name;
  say("state-text", STATES[name]);
}

function showUplink(stats) {
  const { uplink } = stats;
  const steps = page.history.steps(ms(), POINTS);
  const points = steps.map(([at, before, after]) => [at, 8 * perSecond(before, after, (own) => own.wire)]);
  const { last } = page.history;
  const now = 8 * perSecond(page.history.at(last.at - 4000), last, (own) => own.wire);
  const rate = uplink.rate_bits_per_s;
  const [value, unit] = rate ? [`${Math.min(100, Math.round((100 * now) / rate))}`, "%"] : bits(now).split(" ");
  say("uplink-use", value);
  say("uplink-use-unit", unit);
  say("uplink-rate", rate ? `${bits(now)} of ${bits(rate)}` : uplink.is_paced ? "nothing is held back now" : "of responses; no rate is set");
  say("uplink-standing", uplink.standing_queue_ms === null ? "–" : time(uplink.standing_queue_ms));
  say("uplink-backlog", uplink.backlog_ms === null ? "–" : time(uplink.backlog_ms));
  const most = Math.max(rate ?? 0, ...points.map(([, own]) => own), 1) * 1.05;
  const lines = [{ points, isFilled: true }];
  chart(get("uplink-chart"), { begin: last.at - ms(), end: last.at, least: 0, most, lines, level: rate });
}

function showGain({ gain }) {
  const ratio = typeof gain === "number" ? gain : gain?.ratio;
  const isKnown = typeof ratio === "number" && Number.isFinite(ratio);
  get("gain").hidden = !isKnown;
  document.body.classList.toggle("has-gain", isKnown);
  if (!isKnown) return;
  say("gain-number", `${ratio.toFixed(ratio >= 10 ? 0 : 1)}×`);
  const told = gain.last_ten_minutes;
  if (!told || !get("gain-details").open) return;
  get("gain-sizes").replaceChildren(...told.sizes.map((own) => gainRow(SIZES[own.size] ?? own.size, own)));
  get("gain-networks").replaceChildren(...(told.networks ?? []).map((own) => gainRow(own.network, own)));
}

function gainRow(name, { mean_ms, fair_mean_ms, gain }) {
  const cells = [mean_ms, fair_mean_ms].map((own) => (own === null ? "–" : time(own)));
  const row = [...cells, gain === null ? "–" : `${gain.toFixed(2)}×`];
  return element("tr", {},
    element("th", { scope: "row" }, name),
    ...row.map((cell) => element("td", { class: "number" }, cell)));
}

function showTraffic(stats) {
  const [first, last] = span();
  const recent = page.history.at(last.at - 4000);
  say("requests-rate", number(perSecond(recent, last, (own) => own.requests)));
  say("requests-open", number(stats.requests.open));
  say("connections-open", number(stats.connections.open));
  const failed = gained(first, last, (own) => own.failures).reduce((sum, [, count]) => sum + count, 0);
  const all = last.requests - first.requests;
  const part = all > 0 ? (100 * failed) / all : 0;
  say("requests-failed", failed === 0 ? "0" : part >= 0.1 ? `${part.toFixed(1)}%` : number(failed));
}

function showLatency(stats) {
  const { history } = page;
  const bounds = stats.duration_bounds_s;
  const steps = history.steps(ms(), POINTS);
  const [first, last] = span();
  const at = (before, after, size, part) => {
    const value = quantile(bounds, before.sizes[size], after.sizes[size], part);
    return value === null ? null : 1000 * value;
  };
  const box = get("latency");
  stats.sizes.forEach(({ size }, index) => {
    const figure = box.children[index] ?? box.appendChild(multiple(size));
    const lines = [0.99, 0.5].map((part) => ({
      points: steps.map(([when, before, after]) => [when, at(before, after, index, part)]),
      isSlow: part > 0.9,
    }));
    const [p50, p99] = [0.5, 0.99].map((part) => at(first, last, index, part));
    const [, half, most] = figure.querySelectorAll("figcaption span");
    half.textContent = p50 === null ? "–" : time(p50);
    most.textContent = p99 === null ? "" : time(p99);
    figure.querySelector("canvas").setAttribute("aria-label", p50 === null
      ? `Responses ${SIZES[size]}: none in this time`
      : `Responses ${SIZES[size]}: half within ${time(p50)}, 99% within ${time(p99)}`);
    const marks = [[10, "10 ms"], [1000, "1 s"]];
    chart(figure.querySelector("canvas"), { begin: last.at - ms(), end: last.at, least: 0.5, most: 30_000, isLogarithmic: true, lines, marks });
  });
}

function multiple(size) {
  const caption = element("figcaption", {},
    element("span", { class: "size" }, SIZES[size] ?? size),
    element("span", { class: "p50" }, "–"),
    element("span", { class: "p99" }));
  return element("figure", {}, caption, element("canvas", { class: "chart", role: "img" }));
}

function health(endpoint) {
  if (endpoint.used) return ["up", "in use"];
  if (endpoint.draining) return ["out", "drains"];
  if (endpoint.passes_checks === false) return ["out", "fails its checks"];
  if (endpoint.ejected_for_ms !== null) return ["out", `ejected, ${time(endpoint.ejected_for_ms)} left`];
  return ["out", "not used"];
}

/** Its share of the requests, and the configuration's where it was given another. */
function weight({ weight: own, configured_weight: configured }) {
  return own === configured ? `weight ${own}` : `weight ${own}, configured ${configured}`;
}

function showEndpoints(stats) {
  const [, last] = span();
  const recent = page.history.at(last.at - 4000);
  const shown = stats.endpoints.slice(0, MOST_ROWS);
  const most = Math.max(1, ...shown.map((own) => own.outstanding));
  const rows = shown.map((endpoint) => {
    const [kind, words] = health(endpoint);
    const name = `${endpoint.cluster} ${endpoint.address}`;
    const rate = perSecond(recent, last, (own) => own.endpoints.get(name) ?? 0);
    return element("li", { "data-health": kind },
      element("span", { class: "dot", role: "img", "aria-label": kind === "up" ? "in use" : "out of use" }),
      element("span", { class: "address" }, endpoint.address, " ", element("span", { class: "cluster" }, `${endpoint.cluster} · ${weight(endpoint)}`)),
      element("span", { class: "load" }, ...(kind === "up"
        ? [meter(endpoint.outstanding / most, `${endpoint.outstanding} in progress`), element("span", { class: "count" }, number(endpoint.outstanding))]
        : [element("span", { class: "health" }, words)])),
      element("span", { class: "number" }, `${number(rate)}/s`));
  });
  get("endpoints").replaceChildren(...rows);
  const more = stats.endpoints_in_all - shown.length;
  say("endpoints-more", more > 0 ? `and ${number(more)} more` : "");
}

function bars(list, most, colour) {
  return list.map(([name, count, words]) => element("li", colour ? { class: colour } : {},
    element("span", { class: "name" }, name),
    element("span", { class: "count" }, words ?? number(count)),
    meter(count / most, `${words ?? number(count)}`)));
}

const readable = (reason) => reason.replaceAll("_", " ");

function showRefusals() {
  const [first, last] = span();
  const all = new Map(gained(first, last, (own) => own.failures));
  for (const [reason, count] of gained(first, last, (own) => own.refusals)) {
    all.set(reason, Math.max(all.get(reason) ?? 0, count));
  }
  const list = [...all].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([reason, count]) => [readable(reason), count]);
  get("refusals").replaceChildren(...bars(list, list[0]?.[1] ?? 1, "bad"));
  get("refusals-none").hidden = list.length > 0;
}

function showCatalogue() {
  const [first, last] = span();
  const layers = [...last.layers].map(([layer, [hits, misses]]) => {
    const [hitsBefore, missesBefore] = first.layers.get(layer) ?? [0, 0];
    return [layer, hits - hitsBefore, misses - missesBefore];
  });
  const known = layers.reduce((sum, [, hits]) => sum + hits, 0);
  // A look-up asks one layer after the other: the last that was asked had none left.
  const asked = Math.max(0, ...layers.map(([, hits, misses], index) => {
    const before = layers.slice(0, index).reduce((sum, [, own]) => sum + own, 0);
    return hits + misses + before;
  }));
  const isAsked = asked > 0 && known > 0;
  get("catalogue-hits").parentElement.hidden = !isAsked;
  say("catalogue-hits", isAsked ? `${Math.round((100 * known) / Math.max(asked, known))}%` : "");
  say("catalogue-caption", isAsked ? "of the look-ups in this time" : "no size was looked up in this time");
  const list = layers.filter(([, hits]) => hits > 0).sort((a, b) => b[1] - a[1]).slice(0, 4);
  const told = list.map(([layer, hits]) => [readable(layer), hits, `${Math.round((100 * hits) / Math.max(asked, known))}%`]);
  get("catalogue").replaceChildren(...bars(told, Math.max(1, asked)));
}

function showClasses(stats) {
  const [, last] = span();
  const recent = page.history.at(last.at - 4000);
  const rows = stats.classes.slice(0, MOST_ROWS).map((own, index) => {
    const rate = (part) => perSecond(recent, last, (figures) => figures.classes.get(own.class)?.[part] ?? 0);
    const open = own.open_flows === null ? own.waiting : own.open_flows + own.waiting;
    return element("tr", {},
      element("th", { scope: "row" }, element("span", { class: `swatch class-${(index % 6) + 1}`, "aria-hidden": "true" }), own.class),
      element("td", { class: "number level" }, String(own.level)),
      ...[number(rate(0)), bytes(rate(1)), number(open)].map((text) => element("td", { class: "number" }, text)));
  });
  get("classes").replaceChildren(...rows);
}

function showLegend({ classes }) {
  const names = classes.slice(0, 6).map((own) => own.class);
  const legend = get("legend");
  if (legend.dataset.names === names.join()) return;
  legend.dataset.names = names.join();
  legend.replaceChildren(...names.map((name, index) =>
    element("span", {}, element("span", { class: `swatch class-${index + 1}`, "aria-hidden": "true" }), name)));
}

function showStats() {
  const { stats } = page;
  if (!stats || page.history.kept.length === 0) return;
  showAbout(stats);
  showGain(stats);
  showLegend(stats);
  showUplink(stats);
  showTraffic(stats);
  showLatency(stats);
  showEndpoints(stats);
  showRefusals();
  showCatalogue();
  showClasses(stats);
}

const left = (flow) => (flow.left_bytes === null ? "unknown" : `${flow.size_is_exact ? "" : "about "}${bytes(flow.left_bytes)}`);

function showFlows() {
  const { flows, stats } = page;
  if (!flows) return;
  page.queue.show(flows.flows, stats?.classes.map((own) => own.class) ?? []);
  const empty = get("queue-empty");
  empty.hidden = flows.open > 0;
  empty.textContent = flows.is_paced ? "No response is in progress." : "Responses are not paced: there is no queue to show.";
  const beyond = flows.open - flows.flows.length;
  const more = beyond > 0 ? `, ${number(beyond)} not shown` : "";
  const text = flows.open === 0 ? "" : `${number(flows.open)} in progress, ${number(flows.waiting)} waiting${more}`;
  say("queue-text", text);
  if (performance.now() - page.readOutAt > READ_OUT_MS) {
    page.readOutAt = performance.now();
    get("queue").setAttribute("aria-label", `The responses in progress, by what each has left to send: ${text || "none"}`);
  }
  if (get("queue-details").open) {
    const rows = flows.flows.slice(0, 20).map((flow) => element("tr", {},
      ...[flow.state, flow.class ?? "", flow.cluster ?? ""].map((own) => element("td", {}, own)),
      ...[left(flow), bytes(flow.sent_bytes), time(flow.age_ms)].map((own) => element("td", { class: "number" }, own))));
    get("queue-table").replaceChildren(...rows);
  }
}

function take(name, data) {
  if (name === "stats") {
    page.history.add(data);
    page.stats = data;
    if (!page.isPaused) showStats();
  } else if (name === "flows" && !page.isPaused) {
    page.flows = data;
    showFlows();
  }
}

/** Reads events until the stream ends. */
async function follow(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name] = /^event: (.*)$/m.exec(event) ?? [];
      const [, data] = /^data: (.*)$/m.exec(event) ?? [];
      if (name && data) take(name, JSON.parse(data));
    }
  }
}

/** Waits until a token is given, for as long as the tab lives. */
function tokenGiven() {
  return new Promise((resolve) => get("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", get("token").value.trim());
    get("token").value = "";
    resolve();
  }, { once: true }));
}

async function run() {
  for (let failures = 0; ; failures++) {
    try {
      const token = sessionStorage.getItem("token");
      // fetch() throws at a field with other characters; without it, the form comes again.
      const isToken = /^[!-~]+$/.test(token ?? "");
      const headers = { Accept: "text/event-stream", ...(isToken && { Authorization: `Bearer ${token}` }) };
      const response = await fetch("events", { headers, cache: "no-store" });
      get("token-form").hidden = response.status !== 401;
      if (response.status === 401) {
        state("locked");
        await tokenGiven();
        failures = -1;
        continue;
      }
      if (response.ok) {
        failures = 0;
        await follow(response);
      }
      state(response.status === 503 ? "full" : "lost");
    } catch {
      state("lost");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
  }
}

get("pause").addEventListener("click", () => {
  page.isPaused = !page.isPaused;
  get("pause").setAttribute("aria-pressed", String(page.isPaused));
  if (page.isPaused) state("paused");
  else showStats();
});
get("gain-details").addEventListener("toggle", () => page.stats && showGain(page.stats));
document.querySelectorAll("input[name=range]").forEach((input) => input.addEventListener("change", () => {
  page.minutes = Number(input.value);
  showStats();
}));
function redraw() {
  page.queue.restyle();
  showStats();
}
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.addEventListener("visibilitychange", redraw);
window.addEventListener("resize", redraw);
run();
