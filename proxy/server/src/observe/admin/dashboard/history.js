// What the page remembers of the figures, and what it reckons from them.

const KEPT_MS = 15 * 60_000 + 20_000;

/** Takes of a message of figures what charts are made of. */
function reduced(stats) {
  const counts = (list, name, value) => new Map(list.map((own) => [name(own), value(own)]));
  const codes = Object.entries(stats.requests.by_code);
  const looked = stats.catalogue.layers ?? [];
  return {
    at: stats.at_unix_ms,
    wire: stats.uplink.wire_bytes ?? stats.uplink.response_bytes,
    rate: stats.uplink.rate_bits_per_s,
    requests: codes.reduce((sum, [, count]) => sum + count, 0),
    sizes: stats.sizes.map((own) => own.durations_s.counts),
    failures: counts(stats.failures, (own) => own.reason, (own) => own.count),
    refusals: counts(stats.refusals, (own) => own.reason, (own) => own.count),
    layers: counts(looked, (own) => own.layer, (own) => [own.hits, own.misses + own.errors]),
    classes: counts(stats.classes, (own) => own.class, (own) => [own.requests, own.bytes]),
    endpoints: counts(stats.endpoints, (own) => `${own.cluster} ${own.address}`, (own) => own.requests),
  };
}

/** The figures of the last 15 minutes. */
export class History {
  constructor() {
    this.kept = [];
  }

  add(stats) {
    const next = reduced(stats);
    const last = this.kept.at(-1);
    // Another process counts from zero, and a clock may be set back.
    if (last && (next.requests < last.requests || next.wire < last.wire || next.at <= last.at)) {
      this.kept = [];
    }
    this.kept.push(next);
    const old = this.kept.findIndex((own) => own.at >= next.at - KEPT_MS);
    this.kept.splice(0, Math.max(0, old));
  }

  get last() {
    return this.kept.at(-1);
  }

  /** The figures as they were then: the last before it, or the first that there are. */
  at(time) {
    let [low, high] = [0, this.kept.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.kept[middle].at <= time) low = middle + 1;
      else high = middle;
    }
    return this.kept[Math.max(0, low - 1)];
  }

  /** Pairs of figures, so many over the last `ms`: [when, before, after]. */
  steps(ms, count) {
    if (this.kept.length < 2) return [];
    const { at: end } = this.last;
    const begin = this.kept[0].at;
    const step = ms / count;
    const width = Math.max(step, 4_000);
    const steps = [];
    for (let index = 1; index <= count; index++) {
      const time = end - ms + index * step;
      if (time - step < begin) continue;
      const [before, after] = [this.at(time - width), this.at(time)];
      if (after.at > before.at) steps.push([time, before, after]);
    }
    return steps;
  }
}

/** How often it was counted a second between two figures. */
export function perSecond(before, after, of) {
  const seconds = (after.at - before.at) / 1000;
  return seconds > 0 ? Math.max(0, of(after) - of(before)) / seconds : 0;
}

/** What was counted of each name between two figures, the most first. */
export function gained(before, after, of) {
  const all = [...of(after)].map(([name, count]) => [name, count - (of(before).get(name) ?? 0)]);
  return all.filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
}

/** The value below which a part of those lie that came between two counts of a histogram. */
export function quantile(bounds, before, after, part) {
  const counts = after.map((count, index) => count - (before[index] ?? 0));
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all <= 0) return null;
  let left = part * all;
  for (const [index, count] of counts.entries()) {
    if (count > 0 && left <= count) {
      const low = index === 0 ? 0 : bounds[index - 1];
      if (index >= bounds.length) return low;
      return low + ((bounds[index] - low) * left) / count;
    }
    left -= count;
  }
  return bounds.at(-1);
}

const digits = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);

/** 1.23 kB, as sizes of responses are written. */
export function bytes(value) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(digits(value / size))} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

/** 1.23 Mbit/s, as rates of links are written. */
export function bits(value) {
  for (const [unit, size] of [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(digits(value / size))} ${unit}`;
  }
  return `${Math.round(value)} bit/s`;
}

/** 12.3 ms, from milliseconds. */
export function time(ms) {
  if (ms >= 60_000) return `${(ms / 60_000).toFixed(1)} min`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms >= 10_000 ? 1 : 2)} s`;
  if (ms >= 10) return `${ms.toFixed(ms >= 100 ? 0 : 1)} ms`;
  return `${ms.toFixed(ms < 0.05 ? 0 : 1)} ms`;
}

/** 1234 -> 1,234; small numbers with a digit more. */
export function number(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(digits(value / 1e6))} M`;
  if (value > 0 && value < 10 && !Number.isInteger(value)) return value.toFixed(1);
  return Math.round(value).toLocaleString("en");
}
