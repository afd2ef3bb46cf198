// The browsers' side of scripts/check-browser.sh, and the origin behind Sprat.
//
//   node check.mjs serve PORT
//   node check.mjs visit URL BROWSER EXECUTABLE IMAGES IMAGE_BYTES DOWNLOAD_BYTES
//
// `visit` prints a line of JSON: how long a page of IMAGES responses took while a
// download of the same client was under way, and each in the mean; the `Priority` that
// the requests had; what was spoken. BROWSER is `chromium` or `firefox`, or `safari`,
// whose requests are replayed as they were recorded (EXECUTABLE is `-`).

import { createServer } from "node:http";
import { connect } from "node:http2";
import puppeteer from "puppeteer-core";
import { WebSocketServer } from "ws";

const PATIENCE_MS = 60_000;
// What fetch() of Safari 18.4 and later sends, in requests that their users have published.
const SAFARI_PRIORITY = "u=3, i";
const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

function serve(port) {
  const server = createServer((request, response) => {
    const [, kind, bytes] = request.url.split("/");
    if (kind === "bytes") {
      const body = Buffer.alloc(Number(bytes), "sprat ");
      response.writeHead(200, {
        "Content-Length": body.length,
        "Cache-Control": "no-store",
        "X-Asked": request.headers.priority ?? "none",
      });
      response.end(body);
    } else if (kind === "posted") {
      let count = 0;
      request.on("data", (part) => (count += part.length));
      request.on("end", () => response.end(String(count)));
    } else {
      response.writeHead(200, { "Content-Type": "text/html" });
      response.end("<!doctype html><title>Sprat</title>");
    }
  });
  new WebSocketServer({ server }).on("connection", (socket) =>
    socket.on("message", (message, isBinary) => socket.send(message, { binary: isBinary })),
  );
  server.listen(port, "127.0.0.1");
}

// Runs in the page.
async function load({ images, imageBytes, downloadBytes }) {
  const fetched = async (path, bytes) => {
    const response = await fetch(path);
    const body = await response.arrayBuffer();
    if (response.status !== 200 || body.byteLength !== bytes) {
      throw new Error(`${path}: status ${response.status}, ${body.byteLength} bytes`);
    }
    asked.add(response.headers.get("x-asked"));
    return performance.now();
  };
  const asked = new Set();
  const download = await fetch(`/bytes/${downloadBytes}/download`);
  const rest = download.arrayBuffer().then((body) => [body.byteLength, performance.now()]);
  const began = performance.now();
  const all = Array.from({ length: images }, (_, n) => fetched(`/bytes/${imageBytes}/${n}`, imageBytes));
  const times = (await Promise.all(all)).map((at) => at - began);
  const [size, downloaded] = await rest;
  if (size !== downloadBytes) throw new Error(`the download: ${size} bytes`);

  const upload = await fetch("/posted/", { method: "POST", body: new Uint8Array(3_000_000) });
  const posted = await upload.text();
  if (posted !== "3000000") throw new Error(`of 3000000 bytes ${posted} came`);

  const echoed = await new Promise((resolve, reject) => {
    const socket = new WebSocket(`wss://${location.host}/chat`);
    const sent = Array.from({ length: 100 }, (_, n) => `${n} `.repeat(n * 20));
    const back = [];
    socket.onopen = () => sent.forEach((text) => socket.send(text));
    socket.onerror = () => reject(new Error("the WebSocket failed"));
    socket.onmessage = ({ data }) => {
      back.push(data);
      if (back.length === sent.length) {
        socket.close();
        resolve(back.every((text, n) => text === sent[n]));
      }
    };
  });
  const entries = performance.getEntriesByType("resource");
  return {
    page_ms: Math.round(Math.max(...times)),
    mean_ms: Math.round(times.reduce((a, b) => a + b) / times.length),
    download_ms: Math.round(downloaded - began),
    asked: [...asked],
    protocols: [...new Set(entries.map((entry) => entry.nextHopProtocol))],
    echoed,
  };
}

async function visit(url, browser, executablePath, sizes) {
  const running = await puppeteer.launch({
    browser: browser === "firefox" ? "firefox" : "chrome",
    executablePath,
    acceptInsecureCerts: true,
    args: browser === "firefox" ? [] : CHROMIUM_FLAGS,
    protocolTimeout: PATIENCE_MS,
  });
  try {
    const page = await running.newPage();
    await page.goto(url, { timeout: PATIENCE_MS });
    return await page.evaluate(load, sizes);
  } finally {
    await running.close();
  }
}

/** The requests of the page alone, over a connection of HTTP/2 with windows as browsers' are. */
async function replay(url, priority, { images, imageBytes, downloadBytes }) {
  const session = connect(url, { rejectUnauthorized: false, settings: { initialWindowSize: 4 << 20 } });
  session.on("connect", () => session.setLocalWindowSize(16 << 20));
  session.setTimeout(PATIENCE_MS, () => session.destroy(new Error(`nothing came for ${PATIENCE_MS} ms`)));
  const fetched = (path, bytes, head = () => {}) =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ":path": path, priority });
      let got = 0;
      stream.on("response", head);
      stream.on("data", (part) => (got += part.length));
      stream.on("error", reject);
      stream.on("end", () =>
        got === bytes ? resolve(performance.now()) : reject(new Error(`${path}: ${got} bytes`)),
      );
    });
  try {
    let rest;
    const began = await new Promise((resolve, reject) => {
      session.on("error", reject);
      const head = () => resolve(performance.now());
      rest = fetched(`/bytes/${downloadBytes}/download`, downloadBytes, head);
      rest.catch(reject);
    });
    const all = Array.from({ length: images }, (_, n) => fetched(`/bytes/${imageBytes}/${n}`, imageBytes));
    const times = (await Promise.all(all)).map((at) => at - began);
    return {
      page_ms: Math.round(Math.max(...times)),
      mean_ms: Math.round(times.reduce((a, b) => a + b) / times.length),
      download_ms: Math.round((await rest) - began),
      asked: [priority],
      protocols: [session.alpnProtocol],
    };
  } finally {
    session.close();
  }
}

const [task, first, ...others] = process.argv.slice(2);
if (task === "serve") {
  serve(Number(first));
} else {
  const [browser, executable] = others;
  const [images, imageBytes, downloadBytes] = others.slice(2).map(Number);
  const sizes = { images, imageBytes, downloadBytes };
  const seen =
    browser === "safari" ? await replay(first, SAFARI_PRIORITY, sizes) : await visit(first, browser, executable, sizes);
  console.log(JSON.stringify(seen));
}
