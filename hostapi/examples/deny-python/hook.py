#!/usr/bin/python3
"""deny is a hook that rejects jobs that ask for more cpus than this host's administrator allows."""

import io, json, os, signal, sys, traceback
from concurrent import futures
import grpc  # apt-get install python3-grpcio


class Hook:
    """A method for each event, named after it: all whose names begin with exec are events.
    It returns an Outcome; None accepts."""

    def __init__(self, config):
        self.most = config.get("most", 4)  # cpus that a job may have

    def execjob_begin(self, request):
        asked = request["job"].get("resource_list", {}).get("ncpus", "0")
        if not asked.isdigit():
            raise Refused("job", f"ncpus={asked}: not a number")
        if int(asked) > self.most:
            return {"reject": True, "message": f"ncpus={asked}: at most {self.most} on this host"}


class Refused(Exception):
    """Its kind says who has to act: job (the user), node (the administrator) or busy (nobody)."""

    def __init__(self, kind, text):
        self.kind, self.text = kind, text


# The rest is the same in every hook. docs/hooks-any-language.md explains it.

def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

def field(number, value):  # of a protobuf message: all of hookhost's have their length in front
    return varint(number << 3 | 2) + varint(len(value)) + value

def read_varint(stream):
    byte = stream.read(1)[0]
    return byte if byte < 128 else byte - 128 + (read_varint(stream) << 7)

def fields(message):
    found, stream = {}, io.BytesIO(message)
    while stream.tell() < len(message):
        number = read_varint(stream) >> 3
        found[number] = stream.read(read_varint(stream))
    return found

def configure(request):
    global hook
    try:
        config = json.loads(request.get(3) or "{}")
    except ValueError as error:
        raise Refused("node", f"the configuration is not JSON: {error}")
    hook = Hook(config)
    return b"".join(field(1, name.encode()) for name in dir(hook) if name.startswith("exec"))

def handle(request):
    event = json.loads(request[1])
    outcome = getattr(hook, event["event"])(event)
    return field(1, json.dumps({} if outcome is None else outcome).encode())

def answer(call):
    def handler(message, context):
        try:
            return call(fields(message))
        except Refused as error:
            kind, text = error.kind, error.text
        except BaseException as error:  # also sys.exit, which would leave the call unanswered
            traceback.print_exc()
            kind, text = "internal", repr(error)
        return field(2, field(1, kind.encode()) + field(2, text.encode()))
    return grpc.unary_unary_rpc_method_handler(handler)

def main():
    if os.environ.get("HOOKHOST_HOOK") != "6f0c5f1d-hook-of-hookhost":
        sys.exit(f"{sys.argv[0]} is a hook: it is started by hookhost and does nothing by itself")
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: None)  # hookhost decides when a hook ends
    server = grpc.server(futures.ThreadPoolExecutor(64),
                         options=[("grpc.max_receive_message_length", 64 << 20)])
    stop = grpc.unary_unary_rpc_method_handler(lambda message, context: os._exit(0))
    for service, calls in {"plugin.GRPCController": {"Shutdown": stop}, "hookhost.v1.Hook": {
            "Configure": answer(configure), "Handle": answer(handle)}}.items():
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, calls)])
    socket = os.environ["PLUGIN_UNIX_SOCKET_DIR"] + "/hook"
    server.add_insecure_port("unix:" + socket)
    server.start()
    print(f"1|1|unix|{socket}|grpc", flush=True)
    os.dup2(2, 1)  # what is printed from here on goes to hookhost's log
    sys.stdout = sys.stderr
    os.read(int(os.environ["HOOKHOST_LIFELINE_FD"]), 1)  # returns when hookhost has ended
    os._exit(1)

if __name__ == "__main__":
    main()
