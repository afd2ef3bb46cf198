// The queue and the charts, on canvas.

/** Fits a canvas to its box and the screen's pixels; returns what to draw on. */
function prepared(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** Colours as the style sheet has them, for light or dark. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    text: get("--text"),
    muted: get("--muted"),
    rule: get("--rule"),
    panel: get("--panel"),
    accent: get("--accent"),
    slow: get("--slow"),
    classes: [1, 2, 3, 4, 5, 6].map((index) => get(`--class-${index}`)),
  };
}

const LEAST_BYTES = 100;
const MOST_BYTES = 1e8;
const MARKS = [1e3, 1e4, 1e5, 1e6, 1e7];
const MARK_NAMES = ["1 kB", "10 kB", "100 kB", "1 MB", "10 MB"];

/** Where a size stands between nothing and the most, by its logarithm. */
function share(size, most) {
  const of = Math.log(Math.max(size, LEAST_BYTES) / LEAST_BYTES) / Math.log(most / LEAST_BYTES);
  return Math.min(1, 0.02 + 0.98 * of);
}

/**
 * The queue: a bar for each response, as high as what it has left, the next on the left.
 * Between two messages the bars move to where they belong.
 */
export class Queue {
  constructor(canvas) {
    this.canvas = canvas;
    this.bars = new Map();
    this.most = 1e6;
    this.scale = 1e6;
    this.last = 0;
    this.frame = null;
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.colours = colours();
    this.classes = [];
  }

  restyle() {
    this.colours = colours();
    this.wake();
  }

  /** Takes over the responses of a message. */
  show(flows, classes) {
    this.classes = classes;
    const largest = flows.reduce((most, own) => Math.max(most, own.left_bytes ?? own.sent_bytes, own.size_bytes ?? 0), 0);
    const wanted = MARKS.find((mark) => mark > largest) ?? MOST_BYTES;
    this.most = Math.max(1e5, wanted);
    for (const bar of this.bars.values()) bar.leaves = true;
    flows.forEach((flow, place) => {
      const bar = this.bars.get(flow.number) ?? { place: place + 1.5, alpha: 0, left: flow.left_bytes ?? flow.sent_bytes };
      Object.assign(bar, { flow, target: place, leaves: false, wanted: flow.left_bytes ?? flow.sent_bytes });
      this.bars.set(flow.number, bar);
    });
    this.count = flows.length;
    this.wake();
  }

  wake() {
    if (this.frame === null && !document.hidden) {
      this.last = performance.now();
      this.frame = requestAnimationFrame((now) => this.draw(now));
    }
  }

  /** Moves everything a part of its way; returns whether it is all there. */
  move(elapsed) {
    const part = this.calm.matches ? 1 : 1 - Math.exp(-elapsed / 80);
    let rests = true;
    const near = (from, to, unit) => {
      const next = from + (to - from) * part;
      if (Math.abs(to - next) < unit) return to;
      rests = false;
      return next;
    };
    this.scale = near(this.scale, this.most, this.most / 500);
    for (const [number, bar] of this.bars) {
      if (bar.leaves) {
        bar.alpha = near(bar.alpha, 0, 0.02);
        bar.place = near(bar.place, -1, 0.02);
        bar.left = near(bar.left, 0, 50);
        if (bar.alpha === 0) this.bars.delete(number);
        continue;
      }
      bar.alpha = near(bar.alpha, 1, 0.01);
      bar.place = near(bar.place, bar.target, 0.01);
      bar.left = near(bar.left, bar.wanted, Math.max(20, bar.wanted / 200));
    }
    return rests;
  }

  draw(now) {
    this.frame = null;
    const rests = this.move(Math.min(200, now - this.last));
    this.last = now;
    const { context, width, height } = prepared(this.canvas);
    const area = { left: 56, right: width - 4, top: 10, bottom: height - 26 };
    this.grid(context, area);
    const room = area.right - area.left - 6;
    const pitch = Math.max(2.5, Math.min(34, room / Math.max(this.count || 1, 12)));
    const gap = pitch > 8 ? Math.min(6, pitch * 0.22) : pitch > 4 ? 1 : 0.5;
    for (const bar of this.bars.values()) this.bar(context, area, bar, pitch, gap);
    context.globalAlpha = 1;
    if (!rests && !document.hidden) {
      this.frame = requestAnimationFrame((next) => this.draw(next));
    }
  }

  grid(context, { left, right, top, bottom }) {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    for (const [index, mark] of MARKS.entries()) {
      if (mark > this.most) continue;
      const y = Math.round(bottom - share(mark, this.scale) * (bottom - top)) + 0.5;
      if (y < top) continue;
      context.strokeStyle = this.colours.rule;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
      context.fillStyle = this.colours.muted;
      context.fillText(MARK_NAMES[index], left - 10, y);
    }
    context.strokeStyle = this.colours.muted;
    context.globalAlpha = 0.7;
    context.beginPath();
    context.moveTo(left, bottom + 0.5);
    context.lineTo(right, bottom + 0.5);
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = this.colours.muted;
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText("next", left + 6, bottom + 10);
    context.textAlign = "right";
    context.fillText("later", right, bottom + 10);
  }

  bar(context, { left, top, bottom }, bar, pitch, gap) {
    const { flow } = bar;
    const high = bottom - top;
    const x = left + 6 + bar.place * pitch;
    const wide = Math.max(1.5, pitch - gap);
    const y = bottom - share(bar.left, this.scale) * high;
    const radius = Math.min(4, wide / 3);
    const index = Math.max(0, this.classes.indexOf(flow.class));
    const colour = this.colours.classes[index % this.colours.classes.length];
    const shape = (from) => {
      context.beginPath();
      context.roundRect(x, from, wide, bottom - from, [radius, radius, 0, 0]);
    };
    context.fillStyle = colour;
    context.strokeStyle = colour;
    // What it has sent stands above what it has left.
    if (flow.size_bytes !== null && flow.sent_bytes > 0 && !bar.leaves) {
      context.globalAlpha = 0.13 * bar.alpha;
      shape(bottom - share(flow.size_bytes, this.scale) * high);
      context.fill();
    }
    if (flow.state === "idle") {
      context.globalAlpha = 0.55 * bar.alpha;
      context.lineWidth = 1;
      shape(y);
      context.stroke();
      return;
    }
    context.globalAlpha = (flow.state === "sending" ? 1 : 0.5) * bar.alpha;
    shape(y);
    context.fill();
    if (flow.left_bytes === null && wide > 3) {
      // Nothing is known of what is left: as high as what was sent, and open above.
      context.fillStyle = this.colours.panel;
      for (let stripe = y + 3; stripe < bottom; stripe += 7) context.fillRect(x, stripe, wide, 2.5);
    }
    if (flow.state === "sending") {
      context.fillStyle = this.colours.text;
      context.globalAlpha = bar.alpha;
      context.fillRect(x, bottom + 2, wide, 3);
    }
  }
}

/**
 * A chart of lines over time. `lines` are lists of [time, value], null where there is none.
 */
export function chart(canvas, { begin, end, least, most, isLogarithmic, lines, marks, level }) {
  const { context, width, height } = prepared(canvas);
  if (width < 20 || end <= begin) return;
  const own = colours();
  const area = { left: marks ? 46 : 1, right: width - 1, top: 6, bottom: height - 6 };
  const scaled = (value) => {
    if (!isLogarithmic) return (value - least) / (most - least || 1);
    return Math.log(Math.max(value, least) / least) / Math.log(most / least);
  };
  const x = (time) => area.left + ((time - begin) / (end - begin)) * (area.right - area.left);
  const y = (value) => area.bottom - Math.min(1, Math.max(0, scaled(value))) * (area.bottom - area.top);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.lineWidth = 1;
  for (const [value, name] of marks ?? []) {
    const at = Math.round(y(value)) + 0.5;
    context.strokeStyle = own.rule;
    context.beginPath();
    context.moveTo(area.left, at);
    context.lineTo(area.right, at);
    context.stroke();
    context.fillStyle = own.muted;
    context.fillText(name, area.left - 8, at);
  }
  if (level) {
    context.strokeStyle = own.muted;
    context.setLineDash([2, 4]);
    context.beginPath();
    context.moveTo(area.left, y(level));
    context.lineTo(area.right, y(level));
    context.stroke();
    context.setLineDash([]);
  }
  for (const line of lines) plot(context, line, x, y, area, own);
}

/** A line, cut where there is no value, and what lies below it if it is filled. */
function plot(context, { points, isSlow, isFilled }, x, y, area, own) {
  const runs = [[]];
  for (const [time, value] of points) {
    if (value === null) runs.push([]);
    else runs.at(-1).push([x(time), y(value)]);
  }
  context.strokeStyle = isSlow ? own.slow : own.accent;
  context.fillStyle = own.accent;
  context.lineWidth = isSlow ? 1.5 : 2;
  context.lineJoin = "round";
  context.lineCap = "round";
  for (const run of runs) {
    if (run.length === 0) continue;
    context.beginPath();
    run.forEach(([px, py]) => context.lineTo(px, py));
    if (run.length === 1) context.lineTo(run[0][0] + 0.1, run[0][1]);
    context.stroke();
    if (!isFilled) continue;
    context.lineTo(run.at(-1)[0], area.bottom);
    context.lineTo(run[0][0], area.bottom);
    context.globalAlpha = 0.14;
    context.fill();
    context.globalAlpha = 1;
  }
}
