// Draws what the stream of events says. No part of it is loaded from elsewhere.

const HISTORY_S = 180;
const POINTS_MAX = 3000;
// The charts change slowly, and drawing them takes time from what is measured beside it.
const CHARTS_EVERY_S = 1;
const SIZE_RANGE = [30, 3e6];
const TIME_RANGE = [0.5, 2e4];

const byId = (id) => document.getElementById(id);
const colour = (index) => `var(--system-${index + 1})`;
const resolved = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let paused = false;
let state = null;
const views = [];
const history = [];
const points = [];

const number = new Intl.NumberFormat("en");

function milliseconds(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 10000) return `${(ms / 1000).toFixed(0)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(1)} ms`;
}

function context(canvas) {
  const box = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(box.width * scale));
  const height = Math.max(1, Math.round(box.height * scale));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const drawing = canvas.getContext("2d");
  drawing.setTransform(scale, 0, 0, scale, 0, 0);
  drawing.clearRect(0, 0, box.width, box.height);
  drawing.font = "12px system-ui, sans-serif";
  return { drawing, width: box.width, height: box.height };
}

function build(systems) {
  systems.forEach((system, index) => {
    const view = byId("system").content.cloneNode(true).firstElementChild;
    view.style.setProperty("--colour", colour(index));
    view.querySelector("h2").textContent = system.name;
    view.querySelector("canvas").setAttribute("aria-label", `Responses under way through ${system.name}`);
    byId("systems").append(view);
    views.push(view);
  });
}

// Heights go by the square root of bytes, up to the largest that either system has.
function drawFlows(view, flows, largest, slots, index) {
  const { drawing, width, height } = context(view.querySelector("canvas"));
  const fill = resolved(`--system-${index + 1}`);
  const rule = resolved("--rule");
  const slot = width / slots;
  const bar = Math.max(1, Math.min(26, slot - (slot > 4 ? 2 : 0)));
  flows.forEach(([bytes, left], place) => {
    const whole = Math.max(3, Math.sqrt(bytes / largest) * (height - 4));
    const filled = Math.max(left > 0 ? 2 : 0, Math.sqrt(left / largest) * (height - 4));
    drawing.fillStyle = rule;
    drawing.fillRect(place * slot, height - whole, bar, whole);
    drawing.fillStyle = fill;
    drawing.fillRect(place * slot, height - filled, bar, filled);
  });
  if (flows.length === 0) {
    drawing.fillStyle = resolved("--muted");
    drawing.fillText("Nothing is under way.", 4, height - 8);
  }
}

function showSystems() {
  const all = state.systems.flatMap((system) => system.flows);
  const largest = Math.max(100000, ...all.map(([bytes]) => bytes));
  const slots = Math.max(24, ...state.systems.map((system) => system.flows.length));
  state.systems.forEach((system, index) => {
    drawFlows(views[index], system.flows, largest, slots, index);
    const shown = {
      open: number.format(system.open),
      mean: milliseconds(system.recent.all.mean_ms),
      small: milliseconds(system.recent.small.mean_ms),
      large: milliseconds(system.recent.large.mean_ms),
      count: number.format(system.all.count),
      failed: number.format(system.failed),
    };
    for (const [name, text] of Object.entries(shown)) {
      views[index].querySelector(`[data-of=${name}]`).textContent = text;
    }
  });
}

function showGain() {
  const [first, ...others] = state.systems;
  const last = others.at(-1);
  if (!last || !first.all.mean_ms || !last.all.mean_ms) return;
  const factor = first.all.mean_ms / last.all.mean_ms;
  byId("factor").textContent = factor >= 10 ? `${factor.toFixed(0)}×` : `${factor.toFixed(1)}×`;
  byId("factor-text").textContent =
    `${last.name} ${milliseconds(last.all.mean_ms)}, ${first.name} ${milliseconds(first.all.mean_ms)}, ` +
    `over ${clock(state.at_s)}`;
}

function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

const scaleOf = (range, from, to) => {
  const [low, high] = range.map(Math.log10);
  return (value) => {
    const part = (Math.log10(Math.min(range[1], Math.max(range[0], value))) - low) / (high - low);
    return from + part * (to - from);
  };
};

function label(ms) { return ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`; }

function drawTime() {
  const { drawing, width, height } = context(byId("time"));
  const bottom = height - 20;
  const left = 46;
  const y = scaleOf([1, 5000], bottom, 8);
  drawing.fillStyle = resolved("--muted");
  drawing.strokeStyle = resolved("--rule");
  for (const ms of [1, 10, 100, 1000]) {
    drawing.beginPath();
    drawing.moveTo(left, y(ms));
    drawing.lineTo(width, y(ms));
    drawing.stroke();
    drawing.fillText(label(ms), 0, y(ms) + 4);
  }
  drawing.fillText(`${HISTORY_S / 60} minutes ago`, left, height - 4);
  drawing.textAlign = "right";
  drawing.fillText("now", width, height - 4);
  drawing.textAlign = "left";
  state.systems.forEach((system, index) => {
    drawing.strokeStyle = resolved(`--system-${index + 1}`);
    drawing.lineWidth = 2;
    drawing.beginPath();
    let begun = false;
    for (const moment of history) {
      const mean = moment.means[index];
      if (mean === null) continue;
      const x = width - ((state.at_s - moment.at_s) / HISTORY_S) * (width - left);
      if (begun) drawing.lineTo(x, y(mean));
      else drawing.moveTo(x, y(mean));
      begun = true;
    }
    drawing.stroke();
    drawing.lineWidth = 1;
  });
}

function drawSize() {
  const { drawing, width, height } = context(byId("size"));
  const bottom = height - 20;
  const left = 46;
  const x = scaleOf(SIZE_RANGE, left, width - 6);
  const y = scaleOf(TIME_RANGE, bottom, 8);
  drawing.fillStyle = resolved("--muted");
  drawing.strokeStyle = resolved("--rule");
  for (const ms of [1, 10, 100, 1000, 10000]) {
    drawing.beginPath();
    drawing.moveTo(left, y(ms));
    drawing.lineTo(width, y(ms));
    drawing.stroke();
    drawing.fillText(label(ms), 0, y(ms) + 4);
  }
  for (const [bytes, text] of [[100, "100 B"], [1e4, "10 KB"], [1e6, "1 MB"]]) {
    drawing.fillText(text, x(bytes) - 14, height - 4);
  }
  for (const [index, bytes, ms] of points) {
    drawing.fillStyle = resolvedOf[index];
    drawing.fillRect(x(bytes) - 1, y(ms) - 1, 2.5, 2.5);
  }
}

let resolvedOf = [];
let charted_s = -CHARTS_EVERY_S;

function draw() {
  if (!state) return;
  resolvedOf = state.systems.map((_, index) => resolved(`--system-${index + 1}`));
  showSystems();
  showGain();
  if (Math.abs(state.at_s - charted_s) < CHARTS_EVERY_S) return;
  charted_s = state.at_s;
  drawTime();
  drawSize();
}

function take(event) {
  const next = JSON.parse(event.data);
  if (next.at_s < 0) return;
  if (state && next.at_s < state.at_s) {
    history.length = 0;
    points.length = 0;
  }
  if (views.length === 0) build(next.systems);
  // History goes on while the page is paused: what is missed cannot be asked for again.
  const due = history.length === 0 || next.at_s - history.at(-1).at_s >= 1;
  if (due) history.push({ at_s: next.at_s, means: next.systems.map((system) => system.recent.all.mean_ms) });
  while (history.length > 0 && history[0].at_s < next.at_s - HISTORY_S) history.shift();
  next.systems.forEach((system, index) => {
    for (const [bytes, ms] of system.points) points.push([index, bytes, ms]);
  });
  if (points.length > POINTS_MAX) points.splice(0, points.length - POINTS_MAX);
  if (paused) return;
  state = next;
  const rate = `${number.format(state.uplink_bits_per_s / 1e6)} Mbit/s each`;
  byId("about").textContent = `${rate}, load ${state.load}`;
  requestAnimationFrame(draw);
}

byId("pause").addEventListener("click", (event) => {
  paused = !paused;
  event.currentTarget.setAttribute("aria-pressed", String(paused));
  event.currentTarget.textContent = paused ? "Go on" : "Pause";
});
window.addEventListener("resize", () => {
  charted_s = -CHARTS_EVERY_S;
  requestAnimationFrame(draw);
});

const source = new EventSource("events");
source.addEventListener("message", take);
source.addEventListener("error", () => {
  byId("about").textContent = "The demo does not answer; it is tried again.";
});
