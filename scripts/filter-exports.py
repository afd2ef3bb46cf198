#!/usr/bin/env python3
"""Writes a proxy-wasm filter's module with the exports that a host is to see.

The SDK exports each callback that it knows, and a host calls all that it finds.
Those that the filter has no use for, such as bodies of requests, go; and a
function of the filter's own takes the place of the SDK's where that cannot give
the filter's answer (filters/envoy-wasm/src/body.rs). Nothing else is changed.

usage: filter-exports.py FILE OUT
"""
import sys

# What the filter exports in the place of the SDK's, by the name that hosts know.
OWN = {b"proxy_on_response_body": b"sprat_on_response_body"}

KEPT = {
    b"memory", b"malloc", b"_initialize", b"proxy_abi_version_0_2_1",
    b"proxy_on_context_create", b"proxy_on_vm_start", b"proxy_on_configure",
    b"proxy_on_tick", b"proxy_on_queue_ready", b"proxy_on_request_headers",
    b"proxy_on_response_headers", b"proxy_on_response_trailers",
    b"proxy_on_http_call_response", b"proxy_on_done", b"proxy_on_delete",
}

EXPORTS = 7


def number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def encoded(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        if not value:
            return bytes(out + bytes([byte]))
        out.append(byte | 0x80)


def exports(section):
    """Each export's name, with its kind and index as they stand."""
    found, (count, at) = {}, number(section, 0)
    for _ in range(count):
        length, at = number(section, at)
        name, at = section[at : at + length], at + length
        _, end = number(section, at + 1)
        found[name], at = section[at:end], end
    return found


def changed(section):
    found = exports(section)
    missing = [name for name in KEPT | set(OWN.values()) if name not in found]
    if missing:
        sys.exit(f"it does not export {b', '.join(sorted(missing)).decode()}")
    shown = {name: what for name, what in found.items() if name in KEPT}
    shown |= {name: found[own] for name, own in OWN.items()}
    entries = (encoded(len(name)) + name + what for name, what in shown.items())
    return encoded(len(shown)) + b"".join(entries)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    if data[:8] != b"\0asm\1\0\0\0":
        sys.exit(f"{sys.argv[1]} is not a WebAssembly module")
    out, at = bytearray(data[:8]), 8
    while at < len(data):
        kind = data[at]
        size, at = number(data, at + 1)
        section, at = data[at : at + size], at + size
        if kind == EXPORTS:
            section = changed(section)
        out += bytes([kind]) + encoded(len(section)) + section
    with open(sys.argv[2], "wb") as file:
        file.write(out)


main()
