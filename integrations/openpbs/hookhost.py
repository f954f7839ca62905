"""The hook by which pbs_mom calls hookhost: it hands MoM's input file to the daemon's socket and does what the daemon answers.

It knows nothing of jobs: the answer is a list of changes, which it carries out by the module pbs. Where the daemon does not answer, it rejects
what would let a job run unconfined (GUARDED) and accepts the rest. The hook's configuration is a hookhost.toml, whose table [shim] has the keys of DEFAULTS. The text is run by
head.py, below which PBS has it, and imports what the interpreter has anyway. Python 3.6 and later.
"""
import os
import time

import pbs
try:
    import _socket as socket  # the module socket around it takes longer than all of this
except ImportError:
    import socket

DEFAULTS = {"socket": "/run/hookhost/hookhost.sock", "wait": "5s", "offline": "true", "unconfined": "false"}
GUARDED = ("execjob_begin", "execjob_prologue", "execjob_launch", "execjob_attach", "execjob_resize", "execjob_preresume")
EVENTS = GUARDED + ("execjob_epilogue", "execjob_end", "execjob_abort", "execjob_preterm", "execjob_postsuspend",
                    "exechost_periodic", "exechost_startup")
RERUN = ("execjob_begin", "execjob_prologue", "execjob_launch")  # where a reject without a word deletes the job, or leaves it to MoM what to do
FIELDS = {"accept": 0, "reject": 1, "rerun": 0, "delete": 0, "hold": 0, "progname": 1, "argv": 0, "arg": 1, "setenv": 2, "unsetenv": 1,
          "used": 4, "vnode": 5, "offline": 2, "online": 2, "restart": 0, "log": 2, "ask": 0, "end": 0}
VITAL = ("rerun", "delete", "hold", "progname", "argv", "arg", "setenv", "unsetenv")  # a job must not run without these
DOWN = "Hook hookhost: the daemon does not answer: systemctl start hookhost"
INCOMPLETE = "resources_used is incomplete"
CAUSES = (DOWN, "Hook cgroup: Unable to clean up", "offlined by hook '")  # vnodes stay offline while a comment has one (node_manager.c)
MOST = 16 << 20  # bytes of an answer
SILENCE = 5  # seconds to the daemon's first sign of life: 75 busy processes a cpu beside it made that 2


class Failed(Exception):
    """The event could not be handed over, or the answer not be understood or carried out."""


class Down(Failed):
    """The same, and no other job would fare better: nobody answers, or not as the daemon does."""


class Shut(Down):
    """The same, and there is no hope that it is about to restart."""


class Partial(Failed):
    """The answer was carried out in part. Half of a launch's arguments must not run, whatever is configured."""


class Refused(Failed):
    """The daemon cannot read the event, or PBS not its answer. A job's user can bring that about, so no setting lets such a job run unconfined."""


def plain(text, most=1000):
    """Printable and one line: anything else is an exception in pbs, or breaks the file that MoM reads."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most]).strip()


def log(level, *words):
    try:
        text = ": ".join(str(w) for w in words)
        pbs.logmsg(level, plain(text if text[:10] == "hookhost: " else "hookhost: " + text))
    except Exception:
        pass  # there is no other place to say it


class Call:
    """One event on its way to the daemon and back."""

    def __init__(self):
        self.event, self.name, self.input, self.known, self.settings = pbs.event(), "", b"", None, dict(DEFAULTS)
        self.start, self.alarm = time.monotonic(), 30.0
        for name in EVENTS:
            if getattr(pbs, name.upper(), None) == self.event.type:
                self.name = name
        try:
            self.job = "%s of job %s" % (self.name, self.event.job.id)
        except AttributeError:  # an event of the host
            self.job = self.name or "event %s" % self.event.type

    def prepare(self):
        """Reads the settings, the input file and how much time there is."""
        path = os.environ.get("PBS_HOOK_CONFIG_FILE", "")
        if os.path.exists(path):
            with open(path, "rb") as f:
                text = f.read().decode("utf-8", "replace")
            for line in shim_lines(text):
                key, value = setting(line)
                if value and key in DEFAULTS and (DEFAULTS[key] in ("true", "false")) == (value in ("true", "false")) and (
                        key != "wait" or len(value) < 4 and value[-1:] == "s" and value[:-1].isdecimal() and int(value[:-1]) < 60):
                    self.settings[key] = value
                else:
                    log(pbs.LOG_WARNING, path, "not understood", line)
        with open("/proc/self/cmdline", "rb") as f:
            words = f.read().split(b"\0")
        with open(words[words.index(b"-i") + 1], "rb") as f:
            self.input = f.read()
        if self.input.count(b"pbs.event().job.id=") > 1:
            self.name_job()
        at = self.input.rfind(b"\npbs.event().alarm=")  # the last: users have a part in what stands before
        if at >= 0:
            self.alarm = max(1.0, float(self.input[at + 19:].split(b"\n", 1)[0]))
        with open("/proc/self/stat", "rb") as f:  # MoM's alarm has run since this process was forked
            forked = int(f.read().rsplit(b")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
        past = time.clock_gettime(7) - forked  # CLOCK_BOOTTIME, which has no name in Python 3.6
        self.start -= past if 0 < past < self.alarm else 0
        self.end = self.start + self.alarm - max(0.5, self.alarm / 20)
        # The daemon answers a second, or a tenth, before the alarm. What is left then is for the server.
        self.patience = self.start + self.alarm - max(1.0, self.alarm / 10) + max(0.2, self.alarm / 100)
        have = self.event._param
        if have.get("vnode_list") is None or self.name == "execjob_launch" and have.get("env") is None:
            self.repair()

    def name_job(self):
        """There are two ids, one of them a user's text. MoM's is the first, but at launch, where the program's arguments stand before it."""
        first = (b"\n" + self.input).partition(b"\npbs.event().job.id=")[2].partition(b"\n")[0].decode("utf-8", "replace")
        self.job = "%s of %s" % (self.name, "a job" if self.name == "execjob_launch" else "job " + first)

    def repair(self):
        """Puts back what pbs_python leaves out behind an attribute that is not UTF-8: at launch it would crash (pbs_python.c, main)."""
        have, text = self.event._param, b"\n" + self.input
        have.update({name: have.get(name) or {} for name in ("vnode_list", "vnode_list_fail")})
        if self.name == "execjob_launch":
            def value(name, end=b"\n"):
                found = text.partition(b"\npbs.event()." + name)
                return found[2].partition(end)[0].decode("utf-8", "replace") if found[1] else None
            have.update(progname=value(b"progname=") or "", argv=[], env=pbs.pbs_env(value(b'env="""', b'"""\n') or "", True))
            while value(b"argv[%d]=" % len(have["argv"])) is not None:
                have["argv"].append(value(b"argv[%d]=" % len(have["argv"])))
        try:
            self.input.decode("utf-8")
            cause = "a value that PBS cannot take, or lines that pbs_mom did not write"
        except UnicodeDecodeError:
            cause = "not UTF-8"
        log(pbs.LOG_WARNING, self.job, "pbs_python could not read all of the event", cause)

    def left(self):
        left = self.patience - time.monotonic()
        if left <= 0:
            raise Down("%s: no answer in %.3g s" % (self.settings["socket"], self.patience - self.start))
        return left

    def connect(self):
        """Tries while there is hope: a full backlog is EAGAIN, and a daemon that restarts has no socket, or one where nobody listens."""
        path, until, pause = self.settings["socket"], time.monotonic() + int(self.settings["wait"][:-1]), 0.02
        until = self.patience - 0.5 if self.last() else until
        while True:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                s.settimeout(self.left())
                s.connect(path)
                return s
            except (OSError, ValueError) as e:
                s.close()
                hope = isinstance(e, (FileNotFoundError, ConnectionRefusedError, BlockingIOError))
                if not hope or time.monotonic() >= until:
                    raise (Down if hope else Shut)("%s: %s" % (path, getattr(e, "strerror", None) or e))
            time.sleep(min(pause, self.left()))
            pause = min(0.2, pause * 2)

    def post(self, more="", header=""):
        """Hands the event over and returns the changes. A daemon that lives begins its answer at once, by 100 Continue. The kernel takes the
        event for one that is stopped or stuck as well, which would hold MoM until the alarm."""
        s, answer, broken = self.connect(), b"", "the daemon has hung up"
        past = time.monotonic() - self.start
        if past > 1:  # the daemon counts from now on; what is added of vnodes counts behind the last alarm only
            more = "pbs.event().alarm=%d\n%s" % (max(1, self.alarm - past), more)
        body = self.input + (b"" if self.input[-1:] == b"\n" else b"\n") + more.encode("utf-8", "replace") if more else self.input
        head = ("POST /v1/pbs/event HTTP/1.1\r\nHost: hookhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Type: "
                "application/x-pbs-hook-input\r\nContent-Length: %d\r\nHookhost-Parent: %d\r\n%s\r\n" % (len(body), os.getppid(), header))
        silence = max(SILENCE, int(self.settings["wait"][:-1]))
        sign = self.patience if self.last() else time.monotonic() + silence
        try:
            s.settimeout(max(0.001, min(self.left(), sign - time.monotonic())))
            s.sendall(head.encode() + body, socket.MSG_NOSIGNAL)
        except OSError as e:  # it may have answered before it had read all
            broken = e
        try:
            part = True
            while part and len(answer) <= MOST:
                s.settimeout(self.left() if answer else max(0.001, min(self.left(), sign - time.monotonic())))
                part = s.recv(1 << 16)
                answer += part
        except socket.timeout:
            self.left()
            broken = "no sign of life in %d s: it is stopped or stuck" % silence
        except OSError as e:
            broken = e
        finally:
            s.close()
        if answer.startswith(b"HTTP/1.1 100 "):
            answer = answer.partition(b"\r\n\r\n")[2]
        if not answer:
            raise Down("%s: no answer: %s" % (self.settings["socket"], broken))
        return parse(content(answer))

    def ask(self):
        """The daemon's answer; where it asks what the server has of our vnodes, after that."""
        fd = os.environ.get("HOOKHOST_REPLY_FD")  # pbs_python's stand-in has asked already, and cannot carry this out
        changes = parse(os.pread(int(fd), MOST, 0)) if fd else self.tries()
        return self.tell() if changes[0][0] == "ask" else changes

    def last(self):
        """Whether nothing comes after this event: what a job has used is in its epilogue, and what is left of it goes at its end. MoM waits for
        neither, but for a sister's epilogue: there its main loop does (mom_comm.c, IM_KILL_JOB). With wait = "0s" a site waits for no daemon."""
        return int(self.settings["wait"][:-1]) > 0 and (self.name == "execjob_end" or self.name == "execjob_epilogue" and self.event.job.in_ms_mom())

    def tries(self):
        """The daemon's answer; a last event is sent until there is one, or the alarm is near: daemons are restarted."""
        while True:
            try:
                return self.post()
            except Failed as e:
                if not self.last() or isinstance(e, (Refused, Shut)) or time.monotonic() + 0.6 > self.patience:
                    raise
            time.sleep(0.5)

    def tell(self):
        """The daemon asks what the server has of our vnodes, before it does anything."""
        more = ""
        for name, (state, comment) in (self.server(time.monotonic() + self.left() / 3) or {}).items():
            for attribute in ("state=" + pbs.vnode_state_to_str(state), "comment=" + plain(comment, MOST)):
                more += 'pbs.event().vnode_list["%s"].%s\n' % (name, attribute)
        return self.post(more, "Hookhost-Asked: yes\r\n")

    def server(self, until=None):
        """State and comment of the event's vnodes as the server has them, {name: [state, comment]}; False when it cannot be asked. It is asked
        once, in a child: a call of PBS's library has no bound."""
        if self.known is not None:
            return self.known
        until = min(until or self.end, time.monotonic() + 10)
        (ours, theirs), text = socket.socketpair(), b""
        child = os.fork()
        if child == 0:
            try:
                server, said = pbs.server(), ""
                for name in self.event.vnode_list:
                    vnode = server.vnode(name)
                    said += "%s\0%d\0%s\0" % (name, vnode.state or 0, vnode.comment or "")
                theirs.sendall((said + "end").encode("utf-8", "replace"), socket.MSG_NOSIGNAL)
            finally:
                os._exit(0)
        theirs.close()
        try:
            part = True
            while part and not text.endswith(b"\0end"):
                ours.settimeout(max(0.001, until - time.monotonic()))
                part = ours.recv(1 << 16)
                text += part
        except OSError:
            pass
        ours.close()
        os.kill(child, 9)
        os.waitpid(child, os.WNOHANG)
        w = text.decode("utf-8", "replace").split("\0")
        self.known = w[-1] == "end" and {w[i]: [int(w[i + 1]), w[i + 2]] for i in range(0, len(w) - 1, 3)}
        return self.known

    def apply(self, changes):
        if self.name == "exechost_periodic" and os.path.exists(self.mark()):
            changes = changes[:-1] + [("back", [])] + changes[-1:]  # the daemon may have another cause to tell
        for verb, fields in changes:
            try:
                self.do(verb, *fields)
            except Exception as e:
                text = "%s: %s" % (" ".join([verb] + fields), e)
                if verb in VITAL:
                    raise Partial(text)
                log(pbs.LOG_ERROR, self.job, text)

    def mark(self):
        """The file beside the hook that says that give_up has put vnodes offline."""
        return os.path.join(os.pardir, os.path.basename(self.event.hook_name) + ".offline")

    def node(self):
        return (b"\n" + self.input).rpartition(b"\npbs.get_local_nodename()=")[2].partition(b"\n")[0].decode("utf-8", "replace").lower()

    def own(self):
        """The event's vnodes that are this host's. Those of a job may be other hosts' as well: ours have the host's name, which MoM writes last,
        or are where exec_host2 has this host, which is the first on the mother superior."""
        if self.name[:8] == "exechost":
            return list(self.event.vnode_list)
        node = self.node()
        head = str(self.event.job.exec_host2).lower().partition("/")[0].partition(":")[0] if self.event.job.in_ms_mom() else ""
        ours = []
        for name, vnode in self.event.vnode_list.items():
            host = str(vnode.resources_assigned["host"] or "").lower()
            if node and name.lower().partition("[")[0] == node or host and (host in (node, head) or host.partition(".")[0] == node):
                ours.append(name)
        return ours

    def vnode(self, name):
        if name not in self.event.vnode_list:
            if not name or name != plain(name) or '"' in name:
                raise ValueError("not a vnode")
            self.event.vnode_list[name] = pbs.vnode(name)
        return self.event.vnode_list[name]

    def offline(self, name, text):
        """Takes a vnode offline as fail_action does: PBS keeps offline_by_mom apart from an administrator's offline, and shows both as offline
        (attr_node_func.c). text joins the comment, which the server forgets when it is restarted. Returns what is to be said of the vnode."""
        known = self.server()
        if not known:
            self.vnode(name).state = pbs.ND_OFFLINE
            return "vnode %s is offline, until somebody brings it back: the server could not be asked for its comment" % name
        state, comment = known.get(name, [0, ""])
        if not state & pbs.ND_OFFLINE:
            self.vnode(name).state = int(pbs.str_to_vnode_state("offline_by_mom"))
        if text not in comment:
            comment = plain(comment + " " + text, MOST)
            self.vnode(name).comment = comment
        known[name] = [state | pbs.ND_OFFLINE, comment]
        return "vnode %s is offline%s" % (name, " already" if state & pbs.ND_OFFLINE else "")

    def online(self, text):
        """Undoes offline, for all vnodes of the host, unless a comment has another cause. An administrator's offline stays."""
        if not self.server():
            raise Failed("the server cannot be asked")
        comments = {name: comment for name, (_, comment) in self.known.items()}
        for name, comment in comments.items():
            self.known[name][1] = plain(comment.replace(" " + text, "").replace(text, ""), MOST)
        stays = any(cause in comment for _, comment in self.known.values() for cause in CAUSES)
        for name, comment in comments.items():
            if not stays and self.known[name][1] or self.known[name][1] != comment:
                self.vnode(name).comment = self.known[name][1] or None  # an empty one is an exception
        if not stays:
            self.clear()

    def clear(self):
        """Takes offline_by_mom from the host's vnodes by what MoM sends for clear_vnodes_upon_recovery (mom_main.c). The server clears their
        comments with it, so that it stands before all else: in the first vnode, which is MoM's natural one where it has that, and there first."""
        if "offline_vnodes" not in pbs.vnode.attributes:
            others = dict(pbs.vnode.attributes)
            pbs.vnode.attributes.clear()
            pbs.vnode.attributes.update({"offline_vnodes": None}, **others)
        node = self.node()
        first = [n for n in self.event.vnode_list if n.lower() == node] + list(self.event.vnode_list)
        self.vnode(first[0]).offline_vnodes = "0"

    def give_up(self, error):
        """Rejects a guarded event and accepts any other, with one line of log that says why."""
        unconfined = self.settings["unconfined"] == "true" and not isinstance(error, (Refused, Partial))
        cause, outcome = plain(error, 600), "reject" if self.name in GUARDED and not unconfined else "accept"
        if isinstance(error, Down):
            try:
                cause += "".join("; " + text for text in self.down(outcome))
            except Exception as e:
                cause += "; vnodes not offline: %s" % e
        log(pbs.LOG_ERROR, self.job, outcome + "ed", cause)
        if self.name == "execjob_epilogue":
            try:
                self.incomplete(error)
            except Exception as e:
                log(pbs.LOG_ERROR, self.job, "diag_messages", e)
        if outcome == "accept":
            self.event.accept()
        if self.name in RERUN:
            if isinstance(error, Refused):
                self.do("hold")  # it would be refused again, 20 times
            self.event.job.rerun()
        self.event.reject(plain("hookhost: %s: rejected: %s" % (self.job, cause)))

    def incomplete(self, error):
        """Says in the job's record that what it has used is what MoM knew before. The server has to know the resource."""
        try:
            with open(os.path.join(os.pardir, "resourcedef"), "rb") as f:
                if not any(line.split()[:1] == [b"diag_messages"] for line in f):
                    return
        except OSError:
            return
        import json
        used, told, node = self.event.job.resources_used, {}, self.node()
        try:
            told = dict(json.loads(str(used["diag_messages"])))
        except Exception:
            pass  # nothing was told yet
        told[node] = plain("%s %s: %s" % (told.get(node, ""), INCOMPLETE, error), 600)
        used["diag_messages"] = json.dumps(told, separators=(",", ":"))

    def down(self, outcome):
        """Takes the vnodes offline where nobody answers a begin. They stay so until somebody answers; a server that was restarted meanwhile has
        lost the comment. At a periodic vnodes become degraded, whatever MoM knows of them: the server may have ok from before a restart of MoM.
        Returns what is to be said of them."""
        if outcome == "reject" and self.name == "execjob_begin" and self.settings["offline"] == "true":
            open(self.mark(), "w").close()
            return [self.offline(name, DOWN) for name in self.own()]
        if self.name != "exechost_periodic":
            return []
        for vnode in self.event.vnode_list.values():
            if getattr(vnode.resources_available, "hookhost", None) != "degraded":
                vnode.resources_available["hookhost"] = "degraded"
        known = self.server() if os.path.exists(self.mark()) else None
        lost = [name for name, (state, comment) in (known or {}).items() if state & pbs.ND_OFFLINE and DOWN not in comment]
        return ["%s: its comment was lost" % self.offline(name, DOWN) for name in lost]

    def do(self, verb, *f):
        event = self.event
        if verb in ("progname", "arg") and "\n" in f[0]:
            raise ValueError("PBS takes only one line")
        if verb == "accept":
            event.accept()
        elif verb == "reject":
            event.reject(plain(f[0], 3000))
        elif verb == "log" and f[0][:4] == "job ":
            pbs.logjobmsg(f[0][4:], plain(f[1]))
        elif verb == "log" and f[0][:4] == "set ":
            setattr(event.job, word(f[0][4:]), int(f[1]))
        elif verb == "log":
            log({"error": pbs.LOG_ERROR, "warning": pbs.LOG_WARNING}.get(f[0], pbs.LOG_DEBUG), f[1])
        elif verb == "used":
            (event.job_list[f[0]] if f[0] else event.job).resources_used[word(f[1])] = typed(f[2], f[3])
        elif verb == "setenv":
            if not f[0] or any(c in f[0] for c in "=,\\\"'\n ") or '"""\n' in f[1]:
                raise ValueError("PBS cannot take it")
            event.env[f[0]] = f[1].replace("\\", "\\\\").replace(",", "\\,")
            if f[1][-1:] == ",":  # PBS takes commas off the end of the environment (pbs_env.__str__): another one has to be the last
                first = next(iter(event.env))
                dict.__setitem__(event.env, first, event.env.pop(first))
        elif verb == "unsetenv":
            event.env.pop(f[0], None)
        elif verb == "progname":
            event.progname = f[0]
        elif verb == "argv":
            event.argv = []
        elif verb == "arg":
            event.argv.append(f[0])
        elif verb == "rerun" or verb == "delete":
            getattr(event.job, verb)()
        elif verb == "hold":
            event.job.Hold_Types = pbs.hold_types("s")
        elif verb == "vnode" and f[2]:
            getattr(self.vnode(f[0]), word(f[1]))[word(f[2])] = typed(f[3], f[4])
        elif verb == "vnode" and f[3] == "string" and f[1] in ("state", "sharing", "ntype"):
            setattr(self.vnode(f[0]), f[1], int(getattr(pbs, "str_to_vnode_" + f[1])(f[4])))  # it returns the number as text
        elif verb == "vnode":
            setattr(self.vnode(f[0]), word(f[1]), typed(f[3], f[4]) if f[4] else None)
        elif verb == "offline":
            log(pbs.LOG_WARNING, self.job, f[1], self.offline(f[0], plain(f[1])))
        elif verb == "online":
            self.online(plain(f[1]))
        elif verb == "back":
            self.online(DOWN)
            os.unlink(self.mark())
        elif verb == "restart":
            pbs.scheduler_restart_cycle("localhost")


def shim_lines(text):
    """The lines of the table [shim] of a hookhost.toml, comments left out. The package table has the same rules."""
    inside = False
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if line[:1] == "[":
            inside = line == "[shim]"
        elif inside and line and line[0] != "#":
            yield line


def setting(line):
    """Key and value of a line; the value is None where it has none of the forms KEY = "TEXT", 'TEXT', true and false. TEXT is neither of these."""
    key, _, value = (w.strip(" \t\r") for w in line.partition("="))
    if value[:1] in ('"', "'"):
        value, closed, rest = value[1:].partition(value[0])
        rest = rest.strip(" \t\r")
        return key, value if closed and "\\" not in value and rest[:1] in ("", "#") and value not in ("true", "false") else None
    value = value.partition("#")[0].strip(" \t\r")
    return key, value if value in ("true", "false") else None


def word(text):
    """A name of PBS's: any other might say something else in the file that MoM reads."""
    if not text[:1].isalpha() or not text.replace("_", "").replace("-", "").isalnum():
        raise ValueError("not a name")
    return text


def typed(kind, text):
    """A value as pbs wants it; by its type PBS knows what a resource is that it has not met."""
    text = plain(text, MOST)
    if kind == "boolean":
        return text.lower() in ("true", "t", "y", "1")
    return {"long": int, "float": float, "size": pbs.size, "duration": pbs.duration, "string": str}[kind](text)


def content(answer):
    """The body of an HTTP answer."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").lower().split("\r\n")
    headers = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if not separator or not status.startswith("http/1.") or headers.get("content-length", str(len(body))) != str(len(body)):
        raise Down("no whole answer in HTTP: %r" % answer[:60])
    if status.split(" ")[1:2] != ["200"]:
        text = body[:4000].decode("utf-8", "replace")
        if '"error":"' in text:  # JSON, whose module takes long to import
            text = text.partition('"error":"')[2].replace("\\\\", "\0").replace('\\"', "\1").partition('"')[0]
            for a, b in (("\\n", " "), ("\\u003c", "<"), ("\\u003e", ">"), ("\\u0026", "&"), ("\1", '"'), ("\0", "\\")):
                text = text.replace(a, b)
        raise (Refused if status.split(" ")[1:2] in (["400"], ["413"]) else Failed)("the daemon answers %s: %s" % (status[9:], text[:400]))
    if headers.get("content-type") != "application/x-hookhost-changes":
        raise Down("the answer is no list of changes, but %s" % headers.get("content-type"))
    return body


def parse(body):
    """The changes, [(verb, fields)], of an answer: accept, reject or a lone ask is the last, and nowhere else."""
    words, changes, at = body.split(b"\0"), [], 1
    if words.pop() or words[:1] != [b"hookhost/1"]:
        raise Down("the answer is no whole list of changes")
    while at < len(words):
        verb = words[at].decode("latin-1")
        fields = words[at + 1:at + 1 + FIELDS.get(verb, MOST)]
        at += 1 + len(fields)
        if len(fields) != FIELDS.get(verb):
            raise Down("the answer has an unknown or broken change: %s" % plain(verb, 40))
        try:
            changes.append((verb, [f.decode("utf-8", "strict" if verb in VITAL else "replace") for f in fields]))
        except UnicodeDecodeError:
            raise Refused("%s: PBS takes only UTF-8" % verb)
    ends = [i for i, change in enumerate(changes, 2) if change[0] in ("accept", "reject", "ask", "end")]
    if ends != [len(changes), len(changes) + 1] or changes[-1][0] != "end" or changes[-2][0] == "ask" and len(changes) > 2:
        raise Down("the answer has no outcome")
    return changes[:-1]


def main():
    call = Call()
    try:
        call.prepare()
        call.apply(call.ask())
        raise Failed("the daemon asks again")
    except SystemExit:  # by which accept and reject of pbs end the hook
        raise
    except BaseException as e:
        call.give_up(e if isinstance(e, Failed) else "%s: %s" % (type(e).__name__, e))


main()
