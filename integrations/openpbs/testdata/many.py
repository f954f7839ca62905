"""Runs a hook for many events at a time, each in a child of its own, without starting an interpreter for each:

    python3 many.py --hook -i /proc/self/fd/9 -n CHILDREN SCRIPT

Each line of standard input is an event: input file, output file, file for standard error, configuration file, seconds that it has, separated by
tabs. Each line of standard output tells of one that is over: its input file, exit status or "killed", seconds that it took.
"""
import os
import signal
import sys
import time

import pbs

script, most = sys.argv[-1], int(sys.argv[sys.argv.index("-n") + 1])
with open(script, "rb") as f:
    pbs.compiled[script] = compile(f.read(), "<embedded code object>", "exec")
todo = [line.rstrip("\n").split("\t") for line in sys.stdin]
children = {}


def start(source, output, errors, config, seconds):
    sys.stdout.flush()
    child = os.fork()
    if child:
        children[child] = (source, time.monotonic(), float(seconds))
        return
    os.setsid()
    os.dup2(os.open(source, os.O_RDONLY), 9)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    os.environ["PBS_HOOK_CONFIG_FILE"] = config
    os.chdir(os.path.dirname(source))
    status = 1
    try:
        status = pbs.run(script, ["-i", "/proc/self/fd/9", "-o", output])
    except BaseException as e:
        sys.stderr.write("the stand-in: %s: %s\n" % (type(e).__name__, e))
        sys.stderr.flush()
    finally:
        os._exit(status)


def over(child, status):
    source, began, _ = children.pop(child)
    print("%s\t%s\t%.3f" % (source, status, time.monotonic() - began))


while todo or children:
    while todo and len(children) < most:
        start(*todo.pop(0))
    child, status = os.waitpid(-1, os.WNOHANG)
    if child:
        over(child, os.WEXITSTATUS(status) if os.WIFEXITED(status) else "signal %d" % os.WTERMSIG(status))
        continue
    for child, (_, began, seconds) in list(children.items()):
        if time.monotonic() - began > seconds:  # as MoM does
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            over(child, "killed")
    time.sleep(0.002)
