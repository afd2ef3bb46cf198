// Chromium's side of scripts/check-browser.sh, and the origin behind Sprat.
//
//   node check.mjs serve PORT
//   node check.mjs visit URL CHROMIUM IMAGES IMAGE_BYTES DOWNLOAD_BYTES
//
// `visit` prints a line of JSON: how long a page of IMAGES responses took while a
// download of the same client was under way, and each in the mean; what was spoken.

import { createServer } from "node:http";
import { chromium } from "playwright-core";
import { WebSocketServer } from "ws";

const PATIENCE_MS = 60_000;

function serve(port) {
  const server = createServer((request, response) => {
    const [, kind, bytes] = request.url.split("/");
    if (kind === "bytes") {
      const body = Buffer.alloc(Number(bytes), "sprat ");
      response.writeHead(200, { "Content-Length": body.length, "Cache-Control": "no-store" });
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
    return performance.now();
  };
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
    protocols: [...new Set(entries.map((entry) => entry.nextHopProtocol))],
    echoed,
  };
}

async function visit(url, executablePath, images, imageBytes, downloadBytes) {
  const browser = await chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(url);
    const seen = await page.evaluate(load, { images, imageBytes, downloadBytes });
    console.log(JSON.stringify(seen));
  } finally {
    await browser.close();
  }
}

const [task, first, ...others] = process.argv.slice(2);
if (task === "serve") {
  serve(Number(first));
} else {
  await visit(first, others[0], ...others.slice(1).map(Number));
}
