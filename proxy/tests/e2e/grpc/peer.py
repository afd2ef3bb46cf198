"""A server and a client of gRPC, by the library that its users have.

    peer.py serve            prints its port, and serves until stdin ends
    peer.py ask PORT [CA]    asks for all that gRPC has; over TLS with an authority

No message is described: they are bytes as they stand.
"""

import sys
import threading
from concurrent import futures

import grpc

SERVICE = "sprat.test.Mirror"
ROUNDS = 100
MESSAGE = bytes(range(256)) * 40


class Mirror(grpc.GenericRpcHandler):
    def __init__(self):
        self.cancelled = threading.Event()

    def service(self, details):
        name = details.method.rsplit("/", 1)[1]
        return {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Count": grpc.unary_stream_rpc_method_handler(self.count),
            "Sum": grpc.stream_unary_rpc_method_handler(self.sum),
            "Talk": grpc.stream_stream_rpc_method_handler(self.talk),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Stall": grpc.unary_unary_rpc_method_handler(self.stall),
            "Cancelled": grpc.unary_unary_rpc_method_handler(self.was_cancelled),
        }.get(name)

    def echo(self, message, context):
        told = dict(context.invocation_metadata())
        context.send_initial_metadata([("x-first", "head"), ("x-first-bin", told.get("x-any-bin", b""))])
        context.set_trailing_metadata([("x-last", "trailer"), ("x-last-bin", b"\0\xff")])
        return message

    def count(self, message, context):
        for n in range(int(message)):
            yield str(n).encode() + MESSAGE

    def sum(self, messages, context):
        return str(sum(len(message) for message in messages)).encode()

    def talk(self, messages, context):
        for message in messages:
            yield message[::-1]

    def fail(self, message, context):
        context.set_trailing_metadata([("x-why", "asked")])
        context.abort(grpc.StatusCode.NOT_FOUND, "there is none, \u00fc and %")

    def stall(self, message, context):
        context.add_callback(self.cancelled.set)
        self.cancelled.wait(60)
        return b"late"

    def was_cancelled(self, message, context):
        return b"yes" if self.cancelled.wait(30) else b"no"


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=60), handlers=[Mirror()])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


def ask(port, authority=None):
    if authority:
        with open(authority, "rb") as file:
            trusted = grpc.ssl_channel_credentials(file.read())
        channel = grpc.secure_channel(f"localhost:{port}", trusted)
    else:
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def method(kind, name):
        return getattr(channel, kind)(f"/{SERVICE}/{name}")

    echo = method("unary_unary", "Echo")
    for message in [b"", b"a", MESSAGE * 300]:
        answer, call = echo.with_call(message, metadata=[("x-any-bin", b"\1\xfe")], timeout=60)
        assert answer == message
        first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
        assert first["x-first"] == "head" and first["x-first-bin"] == b"\1\xfe", first
        assert last["x-last"] == "trailer" and last["x-last-bin"] == b"\0\xff", last

    streamed = list(method("unary_stream", "Count")(b"300", timeout=60))
    assert streamed == [str(n).encode() + MESSAGE for n in range(300)]

    total = method("stream_unary", "Sum")((MESSAGE for _ in range(300)), timeout=60)
    assert int(total) == 300 * len(MESSAGE)

    # Each message waits for the answer to the one before: neither side has ended.
    answered = threading.Semaphore(1)

    def rounds():
        for n in range(ROUNDS):
            assert answered.acquire(timeout=30)
            yield b"<%d" % n

    for n, answer in enumerate(method("stream_stream", "Talk")(rounds(), timeout=60)):
        assert answer == (b"<%d" % n)[::-1], answer
        answered.release()
    assert n == ROUNDS - 1

    try:
        method("unary_unary", "Fail")(b"", timeout=60)
        raise AssertionError("it did not fail")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
        assert error.details() == "there is none, \u00fc and %", error
        assert dict(error.trailing_metadata())["x-why"] == "asked", error

    # Whoever waits no longer takes its request back, and the server is told.
    try:
        method("unary_unary", "Stall")(b"", timeout=0.5)
        raise AssertionError("it was answered")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    assert method("unary_unary", "Cancelled")(b"", timeout=60) == b"yes"

    calls = [echo.future(str(n).encode() + MESSAGE, timeout=60) for n in range(200)]
    for n, call in enumerate(calls):
        assert call.result() == str(n).encode() + MESSAGE

    try:
        method("unary_unary", "Nothing")(b"", timeout=60)
        raise AssertionError("there is no such method")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
    channel.close()
    print("all passed")


if sys.argv[1] == "serve":
    serve()
else:
    ask(*sys.argv[2:])
