#!/usr/bin/env python3
"""Clients of `make soak` that a load generator is not: slow readers, clients that
leave, half-open connections, TLS, WebSockets and their backend; requests to backends
that die. What must hold of each is checked; the first ten that did not are printed,
and the exit is then not 0.

    soak-clients.py SECONDS PLAIN SECURE WEBSOCKET_BACKEND
"""

import asyncio
import base64
import collections
import random
import socket
import ssl
import struct
import sys
import time

SECONDS = float(sys.argv[1])
PLAIN, SECURE, BACKEND = (int(address.rsplit(":", 1)[1]) for address in sys.argv[2:5])
HOST = "127.0.0.1"
# Longer than the proxy waits for anything that is asked for here, and than the
# longest conversation takes on a machine that does much else.
PATIENCE_S = 180
# Than one message takes to come back.
MESSAGE_PATIENCE_S = 60
# What a dead backend may come to.
EXCUSED = {502, 503, 504}

counts = collections.Counter()
began = time.monotonic()
ends_at = began + SECONDS

insecure = ssl.create_default_context()
insecure.check_hostname = False
insecure.verify_mode = ssl.CERT_NONE


def complain(what):
    counts["wrong"] += 1
    if counts["wrong"] <= 10:
        print(f"wrong, after {time.monotonic() - began:.0f} s: {what}", flush=True)


async def connect(secure=False):
    port, tls = (SECURE, insecure) if secure else (PLAIN, None)
    return await asyncio.open_connection(HOST, port, ssl=tls)


async def head(reader):
    """The status, and the length of the body."""
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = text.split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    return int(lines[0].split(" ")[1]), int(fields.get("content-length", 0))


async def get(reader, writer, path):
    writer.write(f"GET {path} HTTP/1.1\r\nHost: soak.example\r\n\r\n".encode())
    await writer.drain()
    status, length = await head(reader)
    return status, await reader.readexactly(length)


def reset(writer):
    """Ends a connection with a reset."""
    own = writer.get_extra_info("socket")
    # None: the proxy has ended it already.
    if own is not None and not writer.is_closing():
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def kept_over_tls():
    reader, writer = await connect(secure=True)
    for _ in range(random.randint(1, 20)):
        size = random.randint(0, 1 << random.randint(0, 18))
        status, body = await get(reader, writer, f"/size/{size}/tls")
        if (status, len(body)) != (200, size):
            complain(f"over TLS: {status} and {len(body)} bytes of {size}")
        await asyncio.sleep(random.random() / 5)
    writer.close()


async def to_the_flaky():
    reader, writer = await connect()
    for _ in range(10):
        size = random.randint(0, 50_000)
        status, body = await get(reader, writer, f"/flaky/size/{size}/a")
        counts[f"flaky {status}"] += 1
        if status not in EXCUSED and (status, len(body)) != (200, size):
            complain(f"from the flaky: {status} and {len(body)} bytes of {size}")
        await asyncio.sleep(random.random() / 10)
    writer.close()


async def slow_reader():
    reader, writer = await connect(secure=random.random() < 0.3)
    size = random.randint(20_000, 400_000)
    writer.write(f"GET /size/{size}/slow HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    status, length = await head(reader)
    left = length
    leaves_at = random.choice([0, 0, length // 2])
    while left > leaves_at:
        await asyncio.sleep(0.05)
        left -= len(await reader.readexactly(min(left, 5_000)))
    if (status, length) != (200, size):
        complain(f"read slowly: {status} and {length} bytes of {size}")
    reset(writer) if left else writer.close()


async def leaves():
    """In the middle of a request's head or body, or right after it."""
    _, writer = await connect(secure=random.random() < 0.3)
    text = b"POST /size/9/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
    writer.write(text[: random.randint(0, len(text))])
    await asyncio.sleep(random.random() / 10)
    reset(writer) if random.random() < 0.5 else writer.close()


async def half_open():
    """Says something, and nothing more; the proxy ends it."""
    reader, writer = await connect()
    writer.write(b"GET /size/9 HTTP/1.1\r\nHo")
    answer = await reader.read()
    if not answer.startswith(b"HTTP/1.1 408 "):
        complain(f"half-open: {answer[:60]}")
    writer.close()


def frame(payload, mask=b""):
    """A short or medium text message (RFC 6455 5.2)."""
    bit = 0x80 if mask else 0
    if len(payload) < 126:
        first = bytes([0x81, bit | len(payload)])
    else:
        first = bytes([0x81, bit | 126]) + struct.pack(">H", len(payload))
    if mask:
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return first + mask + payload


async def message(reader):
    first, second = await reader.readexactly(2)
    length = second & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", await reader.readexactly(2))
    mask = await reader.readexactly(4) if second & 0x80 else b""
    payload = await reader.readexactly(length)
    if mask:
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    if first != 0x81:
        raise ConnectionError(f"a frame of kind {first:x}")
    return payload


async def websocket():
    reader, writer = await connect()
    key = base64.b64encode(random.randbytes(16)).decode()
    writer.write(
        "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    own = writer.get_extra_info("sockname")[1]
    try:
        status, _ = await asyncio.wait_for(head(reader), MESSAGE_PATIENCE_S)
    except TimeoutError:
        return complain(f"a WebSocket from port {own}: no answer to the request")
    if status != 101:
        return complain(f"a WebSocket: {status}")
    for number in range(random.randint(1, 300)):
        said = random.randbytes(random.randint(1, 2_000)).hex().encode()
        writer.write(frame(said, random.randbytes(4)))
        try:
            heard = await asyncio.wait_for(message(reader), MESSAGE_PATIENCE_S)
        except TimeoutError:
            return complain(f"a WebSocket from port {own}: no answer to message {number}")
        if heard != said:
            return complain("a WebSocket heard another message")
        await asyncio.sleep(random.random() / 5)
    reset(writer) if random.random() < 0.3 else writer.close()


async def echo(reader, writer):
    """The backend of WebSockets."""
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Accept: unchecked\r\n\r\n"
        )
        while True:
            writer.write(frame(await message(reader)))
            await writer.drain()
    except (OSError, EOFError):
        pass
    finally:
        writer.close()


async def again_and_again(client, may_be_cut):
    while time.monotonic() < ends_at:
        counts[client.__name__] += 1
        try:
            await asyncio.wait_for(client(), PATIENCE_S)
        except TimeoutError:
            complain(f"{client.__name__}: no end within {PATIENCE_S} s")
        except (OSError, EOFError) as error:
            if may_be_cut:
                counts[f"{client.__name__} cut"] += 1
            else:
                complain(f"{client.__name__}: {error!r}")
        except Exception as error:
            complain(f"{client.__name__}: {error!r}")
        await asyncio.sleep(random.random() / 5)


async def main():
    backend = await asyncio.start_server(echo, HOST, BACKEND)
    print("listening", flush=True)
    # How many of each, and whether a cut may be the backend's.
    crowd = [
        (kept_over_tls, 8, False),
        (to_the_flaky, 6, True),
        (slow_reader, 8, False),
        (leaves, 6, True),
        (half_open, 3, False),
        (websocket, 20, False),
    ]
    await asyncio.gather(
        *(again_and_again(kind, cut) for kind, number, cut in crowd for _ in range(number))
    )
    backend.close()
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


sys.exit(asyncio.run(main()))
