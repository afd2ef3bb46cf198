#!/usr/bin/env python3
"""Checks that a proxy-wasm filter imports nothing but proxy-wasm's calls
(ABI 0.2.1), and exports what a host calls.

usage: wasm-imports.py FILE
"""
import sys

ALLOWED = {
    "proxy_" + name
    for name in """
        log get_log_level get_current_time_nanoseconds set_tick_period_milliseconds
        get_buffer_bytes set_buffer_bytes get_header_map_pairs set_header_map_pairs
        get_header_map_value replace_header_map_value remove_header_map_value
        add_header_map_value get_property set_property get_shared_data set_shared_data
        register_shared_queue resolve_shared_queue dequeue_shared_queue
        enqueue_shared_queue continue_stream close_stream send_local_response http_call
        grpc_call grpc_stream grpc_send grpc_cancel grpc_close get_status
        set_effective_context call_foreign_function done define_metric get_metric
        record_metric increment_metric
    """.split()
}
NEEDED = {
    "memory",
    "_initialize",
    "proxy_abi_version_0_2_1",
    "proxy_on_configure",
    "proxy_on_request_headers",
    "proxy_on_response_headers",
    "proxy_on_response_body",
    "proxy_on_tick",
    "proxy_on_done",
}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self):
        return self.take(self.number()).decode()

    def limits(self):
        if self.byte() & 1:
            self.number()
        self.number()


def imports(section):
    found = []
    for _ in range(section.number()):
        module, name, kind = section.name(), section.name(), section.byte()
        if kind == 0:
            section.number()
        elif kind == 1:
            section.byte()
            section.limits()
        elif kind == 2:
            section.limits()
        else:
            section.take(2)
        found.append((module, name, kind))
    return found


def exports(section):
    found = set()
    for _ in range(section.number()):
        found.add(section.name())
        section.byte()
        section.number()
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = sys.argv[1]
    with open(path, "rb") as file:
        reader = Reader(file.read())
    if reader.take(8) != b"\0asm\1\0\0\0":
        sys.exit(f"{path} is not a WebAssembly module")
    imported, exported = [], set()
    while reader.at < len(reader.data):
        kind, size = reader.byte(), reader.number()
        section = Reader(reader.take(size))
        if kind == 2:
            imported = imports(section)
        elif kind == 7:
            exported = exports(section)
    wrong = [
        f"it imports {module}.{name}, which is not one of proxy-wasm's calls"
        for module, name, kind in imported
        if module != "env" or kind != 0 or name not in ALLOWED
    ]
    wrong += [f"it does not export {name}" for name in sorted(NEEDED - exported)]
    wrong += [f"it exports {name}" for name in sorted(exported) if name.startswith("sprat_")]
    if not exported & {"proxy_on_memory_allocate", "malloc"}:
        wrong.append("it exports no function that allocates for the host")
    if wrong:
        sys.exit("\n".join(f"{path}: {text}" for text in wrong))
    print(f"{path}: {len(imported)} imports, all of them proxy-wasm's")


main()
