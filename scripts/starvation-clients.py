#!/usr/bin/env python3
"""Clients of `make starvation`, and the origin of its event stream.

    starvation-clients.py origin ADDRESS       serves /events
    starvation-clients.py events HOST SECONDS  an event stream behind downloads
    starvation-clients.py overload HOST SECONDS TRACE BYTES
                                               a trace, and one large download

What was measured is printed as NAME=NUMBER.
"""

import asyncio
import csv
import gzip
import struct
import sys
import time

# An event each 100 ms, of this size, after a megabyte: a stream that is large already.
EVENT_BYTES, INTERVAL_S, HISTORY_BYTES = 200, 0.1, 1 << 20
DOWNLOADS, DOWNLOAD_BYTES = 8, 500_000
# The downloads have the link by then.
WARM_S = 3


async def serve_events(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    writer.write(bytes(HISTORY_BYTES))
    await writer.drain()
    while True:
        await asyncio.sleep(INTERVAL_S)
        # Both ends have one clock.
        writer.write(struct.pack("!d", time.monotonic()) + bytes(EVENT_BYTES - 8))
        await writer.drain()


async def origin(address):
    host, port = address.rsplit(":", 1)
    server = await asyncio.start_server(serve_events, host, int(port))
    await server.serve_forever()


async def request(host, path):
    """Sends a request; the reader of the body, behind the head, and its writer."""
    address, port = host.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    return reader, writer


async def download(host, number):
    while True:
        reader, writer = await request(host, f"/size/{DOWNLOAD_BYTES}/{number}")
        await reader.readexactly(DOWNLOAD_BYTES)
        writer.close()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def events(host, seconds):
    reader, _ = await request(host, "/events")
    body = Chunks(reader)
    await body.take(HISTORY_BYTES)
    downloads = [asyncio.create_task(download(host, number)) for number in range(DOWNLOADS)]
    late, ends = [], time.monotonic() + WARM_S + seconds
    heard = time.monotonic()
    while time.monotonic() < ends:
        try:
            event = await asyncio.wait_for(body.take(EVENT_BYTES), ends - time.monotonic())
            sent = struct.unpack("!d", event[:8])[0]
        except asyncio.TimeoutError:
            # The next one is late by this at least.
            sent = heard + INTERVAL_S
        heard = time.monotonic()
        if heard > ends - seconds:
            late.append(1000 * (heard - sent))
    for each in downloads:
        each.cancel()
    print(
        f"events={len(late)} event_p50_ms={percentile(late, 0.5):.1f}"
        f" event_p99_ms={percentile(late, 0.99):.1f} event_max_ms={max(late):.1f}"
    )


class Chunks:
    """A body in chunked coding."""

    def __init__(self, reader):
        self.reader, self.held = reader, b""

    async def take(self, count):
        while len(self.held) < count:
            size = int(await self.reader.readline(), 16)
            self.held += await self.reader.readexactly(size + 2)
            self.held = self.held[:-2]
        taken, self.held = self.held[:count], self.held[count:]
        return taken


async def shares(under_way, seconds):
    """The mean part of the floor that each has who waits, the large download among them.
    Those take part that are under way for a second."""
    parts, ends = [], time.monotonic() + seconds
    while time.monotonic() < ends:
        now = time.monotonic()
        parts.append(1 / (1 + sum(now - began > 1 for began in under_way.values())))
        await asyncio.sleep(0.05)
    return sum(parts) / len(parts)


async def one(host, path, size, heads, whole):
    began = time.monotonic()
    try:
        reader, writer = await request(host, path)
    finally:
        # Without one at the end, it has waited for it so long.
        heads.append(time.monotonic() - began)
    await reader.readexactly(size)
    whole.append(time.monotonic() - began)
    writer.close()


async def large(host, size, seconds):
    """A large download: when its head came, and how much of it after so long."""
    began, got = time.monotonic(), 0
    reader, writer = await request(host, f"/size/{size}/large")
    head_s = time.monotonic() - began
    # The longest that nothing came.
    longest, moved = 0.0, time.monotonic()
    while time.monotonic() < began + seconds:
        try:
            piece = await asyncio.wait_for(reader.read(65536), began + seconds - time.monotonic())
        except asyncio.TimeoutError:
            piece = b""
        now = time.monotonic()
        longest, moved = max(longest, now - moved), now
        got += len(piece)
        if got >= size:
            break
    writer.close()
    return head_s, got / (time.monotonic() - began), longest


async def overload(host, seconds, trace, size):
    with gzip.open(trace, "rt") as lines:
        rows = list(csv.DictReader(lines))
    waiting, heads, whole = {}, [], []
    began = time.monotonic()
    slow = share = None
    for row in rows:
        at = began + float(row["t_s"])
        if at > began + seconds + WARM_S:
            break
        await asyncio.sleep(max(0, at - time.monotonic()))
        if slow is None and time.monotonic() > began + WARM_S:
            slow = asyncio.create_task(large(host, size, seconds))
            share = asyncio.create_task(shares(waiting, seconds))
        path, length = row["path"], int(row["bytes"])
        task = asyncio.create_task(one(host, path, length, heads, whole))
        waiting[task] = time.monotonic()
        task.add_done_callback(waiting.pop)
    (head_s, rate, longest), part = await slow, await share
    under_way = list(waiting)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    print(
        f"heads={len(heads)} head_p99_ms={1000 * percentile(heads, 0.99):.1f}"
        f" head_max_ms={1000 * max(heads):.1f} whole={len(whole)} under_way={len(under_way)}"
        f" mean_ms={1000 * sum(whole) / len(whole):.1f}"
        f" large_head_ms={1000 * head_s:.1f} large_bytes_per_s={rate:.0f}"
        f" large_longest_pause_s={longest:.2f} floor_part={part:.3f}"
    )


def main():
    what, *rest = sys.argv[1:]
    if what == "origin":
        work = origin(*rest)
    elif what == "events":
        work = events(rest[0], float(rest[1]))
    else:
        work = overload(rest[0], float(rest[1]), rest[2], int(rest[3]))
    asyncio.run(work)


main()
