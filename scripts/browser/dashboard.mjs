// Chromium's side of scripts/check-dashboard.sh, and the load that it watches.
//
//   node dashboard.mjs load PROXY BITS_PER_S LOAD
//   node dashboard.mjs visit ADMIN CHROMIUM DIRECTORY
//
// `load` asks PROXY for responses of a web farm's sizes, so many that they take LOAD of
// its uplink, until it is told to end. `visit` opens the dashboard, tries all that it
// promises, leaves pictures in DIRECTORY, and prints a line of JSON: how often the queue
// was seen to have moved, and what went wrong.

import { Agent, get } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { chromium } from "playwright-core";

const PATIENCE_MS = 60_000;
/** What a response and its connection cost on the wire beside its body. */
const OVERHEAD_BYTES = 500;
const LARGEST_BYTES = 6e6;

/** A farm's sizes: half up to 1 kB, four tenths up to 10 kB, the rest a heavy tail. */
function size() {
  const between = (low, high) => low * (high / low) ** Math.random();
  const kind = Math.random();
  if (kind < 0.5) return Math.round(between(50, 1000));
  if (kind < 0.88) return Math.round(between(1000, 10_000));
  const [low, alpha] = [10_000, 1.15];
  return Math.round(Math.min(LARGEST_BYTES, low * Math.random() ** (-1 / alpha)));
}

async function load(proxy, bitsPerS, share) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1000 });
  const drawn = Array.from({ length: 200_000 }, size);
  const mean = drawn.reduce((sum, bytes) => sum + bytes) / drawn.length + OVERHEAD_BYTES;
  const perMs = (share * bitsPerS) / 8 / mean / 1000;
  let [next, number] = [performance.now(), 0];
  for (;;) {
    next -= Math.log(1 - Math.random()) / perMs;
    const early = next - performance.now();
    if (early > 1) await pause(early);
    const bytes = size();
    const kind = Math.random();
    const path = `/bytes/${bytes}/${(number += 1) % 500}`;
    const headers = kind < 0.1 ? { "Sec-Purpose": "prefetch" } : {};
    const target = kind > 0.99 ? "/nowhere" : kind > 0.7 ? `/api${path}` : path;
    const request = get(`${proxy}${target}`, { agent, headers }, (response) => response.resume());
    request.on("error", () => {});
    // Some clients do not wait.
    if (kind > 0.4 && kind < 0.42) setTimeout(() => request.destroy(), 300);
  }
}

function launch(executablePath) {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

function expect(holds, words) {
  if (!holds) throw new Error(words);
}

/** The page, and all that goes wrong in it. */
async function open(browser, admin, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const wrong = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => request.url().startsWith(`${admin}/`) || wrong.push(`asked ${request.url()}`));
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective}`)));
  const parts = process.env.PARTS;
  // While the page is being made, its parts come from the sources.
  if (parts) {
    await page.route(/(\/|\.js|\.css)$/, async (route) => {
      const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
      await route.fulfill({ response: await route.fetch(), path: join(parts, name) });
    });
  }
  const response = await page.goto(`${admin}/`);
  expect(response.status() === 200, "the page is there");
  expect(response.headers()["content-security-policy"].includes("default-src 'none'"), "it has a policy");
  await page.waitForFunction(() => document.getElementById("state-text").textContent === "Serving");
  return { page, wrong, context };
}

const picture = (page) => page.locator("#queue").evaluate((canvas) => canvas.toDataURL());
const queued = (page) => page.locator("#queue-text").textContent();

/** How often the queue has moved between two looks, of `looks`. */
async function moves(page, looks) {
  let [count, last] = [0, await picture(page)];
  for (let look = 0; look < looks; look++) {
    await pause(150);
    const next = await picture(page);
    if (next !== last) count += 1;
    last = next;
  }
  return count;
}

/** What the keyboard reaches, from the top of the page. */
async function reached(page) {
  await page.locator("body").focus();
  const seen = [];
  for (let tab = 0; tab < 12; tab++) {
    await page.keyboard.press("Tab");
    seen.push(await page.evaluate(() => {
      const { id, name, className, localName } = document.activeElement;
      return id || name || className || localName;
    }));
  }
  return seen;
}

async function tryControls(page) {
  const seen = await reached(page);
  for (const wanted of ["skip", "range", "pause", "summary"]) expect(seen.includes(wanted), `Tab reaches ${wanted}, of ${seen}`);
  await page.locator("#pause").focus();
  await page.keyboard.press("Space");
  expect(await page.locator("#pause").getAttribute("aria-pressed") === "true", "it pauses");
  expect(await page.locator("#state-text").textContent() === "Paused", "it says so");
  await pause(1500);
  expect(await moves(page, 5) === 0, "nothing moves while it pauses");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("state-text").textContent === "Serving");
  await page.locator("input[name=range]:checked").focus();
  await page.keyboard.press("ArrowRight");
  expect(await page.locator("input[name=range]:checked").inputValue() === "5", "arrows choose the range");
  await page.keyboard.press("ArrowLeft");
  await page.locator("#queue-details summary").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("#queue-table tr").length > 0);
  await page.keyboard.press("Enter");
}

/** What a screen reader finds. */
async function tryStructure(page) {
  expect(await page.getByRole("main").count() === 1, "there is one main landmark");
  expect(await page.getByRole("banner").count() === 1, "there is one header");
  const regions = await page.getByRole("region").count();
  expect(regions >= 8, `each panel is a region with a name: ${regions}`);
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll("canvas, button, input, table, svg")]
      .filter((own) => !own.closest("[hidden]"))
      .filter((own) => !(own.ariaLabel || own.textContent.trim() || own.closest("label, section[aria-labelledby]"))).length);
  expect(unnamed === 0, `${unnamed} parts have no name`);
}

async function tryWidths(page, directory) {
  for (const [width, height] of [[360, 740], [768, 1024], [1100, 800], [1920, 1080]]) {
    await page.setViewportSize({ width, height });
    await pause(400);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    const beyond = await page.evaluate(() => [...document.querySelectorAll("body *")]
      .filter((own) => own.getBoundingClientRect().right > innerWidth + 1 && !own.closest(".unseen, .scroll"))
      .map((own) => `${own.localName}.${own.className}#${own.id}`).slice(0, 5));
    expect(wide <= width, `${wide} px wide on a screen of ${width}: ${beyond}`);
    await page.screenshot({ path: join(directory, `width-${width}.png`), fullPage: width < 1000 });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}

/** The gain, which a server tells once it has something to compare. */
async function tryGain(browser, admin, directory) {
  const { page, wrong } = await open(browser, admin, { colorScheme: "dark" });
  const { gain, ...others } = await page.evaluate(() => fetch("stats").then((own) => own.json()));
  const told = async (stats) => {
    const body = `event: stats\ndata: ${JSON.stringify(stats)}\n\n`;
    await page.unroute("**/events");
    await page.route("**/events", (route) => route.fulfill({ contentType: "text/event-stream", body }));
    await page.reload();
    await page.locator("#legend span").first().waitFor();
  };
  await told(others);
  expect(!(await page.locator("#gain").isVisible()), "there is no gain where none is told");
  await told({ ...others, gain: { ...gain, ratio: 3.42 } });
  await page.locator("#gain").waitFor({ state: "visible" });
  expect(await page.locator("#gain-number").textContent() === "3.4×", "the gain is shown");
  await page.unroute("**/events");
  await page.reload();
  await page.locator("#gain").waitFor({ state: "visible" });
  const number = await page.locator("#gain-number").textContent();
  expect(/^\d+(\.\d)?×$/.test(number), `the gain is a number: ${number}`);
  await page.locator("#gain-details summary").click();
  await page.waitForFunction(() => ["gain-sizes", "gain-networks"]
    .every((id) => document.querySelectorAll(`#${id} tr`).length > 0));
  const networks = await page.locator("#gain-networks").textContent();
  expect(networks.includes("127.0.0.0/"), `the clients' network is named: ${networks}`);
  await page.screenshot({ path: join(directory, "gain.png") });
  expect(wrong.length === 0, wrong.join("; "));
  await page.context().close();
}

async function visit(admin, executablePath, directory) {
  const browser = await launch(executablePath);
  try {
    await tryGain(browser, admin, directory);
    const { page, wrong } = await open(browser, admin, { colorScheme: "dark" });
    await page.waitForFunction(() => /^\d+ in progress/.test(document.getElementById("queue-text").textContent));
    const moved = await moves(page, 20);
    expect(moved >= 10, `the queue has moved ${moved} times of 20`);
    const before = await queued(page);
    await page.waitForFunction((text) => document.getElementById("queue-text").textContent !== text, before);
    await tryStructure(page);
    await tryControls(page);
    // Enough for the charts to show something.
    await pause(Number(process.env.WATCH_S || 20) * 1000);
    await page.evaluate(() => document.activeElement.blur());
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await pause(500);
      await page.screenshot({ path: join(directory, `${colorScheme}.png`) });
      await page.screenshot({ path: join(directory, `${colorScheme}-all.png`), fullPage: true });
    }
    await tryWidths(page, directory);
    await page.emulateMedia({ reducedMotion: "reduce" });
    expect(await moves(page, 20) > 0, "the queue is shown without motion, too");
    expect(wrong.length === 0, wrong.join("; "));
    console.log(JSON.stringify({ moved, wrong: wrong.length }));
  } finally {
    await browser.close();
  }
}

const [task, ...others] = process.argv.slice(2);
await (task === "load" ? load(others[0], Number(others[1]), Number(others[2])) : visit(...others));
