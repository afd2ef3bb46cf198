// Chromium's side of `ONCE=1 make demo`.
//
//   node demo.mjs PAGE CHROMIUM DIRECTORY
//
// Opens the page, tries what it promises, leaves pictures in DIRECTORY, and prints a line
// of JSON: how often the queues were seen to have moved, and the factor that is shown.

import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { chromium } from "playwright-core";

const LOOKS = 20;
const [url, executablePath, directory] = process.argv.slice(2);

function expect(holds, words) {
  if (!holds) throw new Error(words);
}

/** How often the queues have changed from one look to the next. */
async function moves(page) {
  const look = () =>
    page.evaluate(() => [...document.querySelectorAll(".system canvas")].map((canvas) => canvas.toDataURL()).join());
  let [before, moved] = [await look(), 0];
  for (let looks = 0; looks < LOOKS; looks += 1) {
    await pause(300);
    const now = await look();
    if (now !== before) moved += 1;
    before = now;
  }
  return moved;
}

async function visit(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1000 }, colorScheme: "dark" });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => request.url().startsWith(url) || wrong.push(`asked ${request.url()}`));
  await page.goto(url);
  await page.locator(".system").nth(1).waitFor();
  await page.waitForFunction(() => document.querySelector("#factor").textContent.includes("×"));
  const moved = await moves(page);
  expect(moved >= LOOKS / 2, `the queues have moved ${moved} times of ${LOOKS}`);
  // Long enough for the mean to be one.
  await pause(Number(process.env.WATCH_S ?? 15) * 1000);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  expect((await page.locator("#pause").getAttribute("aria-pressed")) === "true", "the keyboard pauses it");
  expect((await moves(page)) === 0, "nothing moves while it pauses");
  await page.keyboard.press("Enter");
  await pause(1000);
  const factor = Number.parseFloat(await page.locator("#factor").textContent());
  await page.screenshot({ path: join(directory, "demo-dark.png") });
  for (const width of [360, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme: "light" });
    await pause(500);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide <= width, `${wide} px wide on a screen of ${width}`);
    await page.screenshot({ path: join(directory, `demo-${width}.png`), fullPage: true });
  }
  expect(wrong.length === 0, wrong.join("; "));
  return { moved, factor };
}

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  console.log(JSON.stringify(await visit(browser)));
} finally {
  await browser.close();
}
