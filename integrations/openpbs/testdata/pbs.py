"""A stand-in for the module pbs of OpenPBS, and for pbs_python around it: hooks of pbs_mom run with it under any python3.

It follows src/tools/pbs_python.c, src/lib/Libpython/pbs_python_svr_internal.c and src/modules/python/pbs/v1 in what a hook of MoM can see:
what may be set in which event and what is raised where not, of which type values have to be, how the environment is split and joined, and
what is written to the output file. What only hooks of the server can see is not here.

    python3 pbs_python.py --hook -i IN -o OUT -L LOGS -e MASK SCRIPT

does what pbs_python does. `python3 SCRIPT --hook -i IN -o OUT ...` does the same where this folder is in PYTHONPATH. What the hook logs
goes to standard error too. The server is the file PBS_STANDIN_SERVER: lines "VNODE<tab>STATE<tab>COMMENT", or the word hang or refuse. With PBS_STANDIN_TIME it says
how long the script took to be compiled and run.
"""
import builtins
import os
import sys
import time

EXECJOB_BEGIN, EXECJOB_PROLOGUE, EXECJOB_EPILOGUE, EXECJOB_END, EXECJOB_PRETERM = 0x40, 0x80, 0x100, 0x200, 0x400
EXECJOB_LAUNCH, EXECHOST_PERIODIC, EXECHOST_STARTUP, EXECJOB_ATTACH = 0x800, 0x1000, 0x2000, 0x4000
EXECJOB_RESIZE, EXECJOB_ABORT, EXECJOB_POSTSUSPEND, EXECJOB_PRERESUME = 0x20000, 0x40000, 0x80000, 0x100000
EVENTS = {n.lower(): v for n, v in list(globals().items()) if n.startswith("EXEC")}
LOG_DEBUG, LOG_WARNING, LOG_ERROR = 5, 6, 7
EVENT_ERROR, EVENT_SYSTEM, EVENT_ADMIN, EVENT_JOB, EVENT_DEBUG, EVENT_DEBUG2, EVENT_DEBUG3, EVENT_DEBUG4 = 1, 2, 4, 8, 0x80, 0x100, 0x400, 0x800
ND_FREE, ND_OFFLINE, ND_DOWN, ND_JOBBUSY, ND_STALE, ND_JOB_EXCLUSIVE, ND_BUSY = 0, 1, 2, 0x10, 0x20, 0x40, 0x80
ND_DEFAULT_SHARED, ND_DEFAULT_EXCL, ND_IGNORE_EXCL, ND_FORCE_EXCL, ND_DEFAULT_EXCLHOST, ND_FORCE_EXCLHOST = 1, 2, 3, 4, 5, 6
# libattr attr_node_func.c, ns[]
STATES = ((0x100, "state-unknown"), (2, "down"), (0x20, "Stale"), (1, "offline"), (0x10, "job-busy"), (0x40, "job-exclusive"), (0x80, "busy"),
          (0x400, "initializing"), (0x800, "provisioning"), (0x1000, "wait-provisioning"), (0x2000, "resv-exclusive"), (8, "unresolvable"),
          (0x4000, "offline_by_mom"), (0x20000, "maintenance"), (0x40000, "sleep"))
SHARING = {1: "default_shared", 2: "default_excl", 3: "ignore_excl", 4: "force_excl", 5: "default_exclhost", 6: "force_exclhost"}

_python_mode = False  # a hook runs; else pbs_python itself, which may set anything
_over = False         # accept or reject was called
_event = None
_verdict = [True, None]
_restart = False
_log = (None, 0xffffffff)
compiled = {}         # scripts that need not be compiled again: for runs by the thousand


class EventIncompatibleError(AttributeError):
    pass


class UnsetAttributeNameError(Exception):
    pass


class BadAttributeValueTypeError(Exception):
    pass


class BadAttributeValueError(Exception):
    pass


class UnsetResourceNameError(Exception):
    pass


class BadResourceValueTypeError(Exception):
    pass


class BadResourceValueError(Exception):
    pass


def _c_string(text, what):
    """What PyArg_Parse "s" takes: a str without NUL that is Unicode."""
    if not isinstance(text, str):
        raise TypeError("%s must be str, not %s" % (what, type(text).__name__))
    if "\0" in text:
        raise ValueError("embedded null character")
    text.encode()  # a surrogate: UnicodeEncodeError
    return text


def logmsg(level, message):
    if level not in (LOG_DEBUG, LOG_WARNING, LOG_ERROR) and level not in (1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800, 0x8000):
        raise TypeError("Invalid severity or eventtype value <%d>" % level)
    kind = EVENT_ADMIN | EVENT_SYSTEM if level in (LOG_DEBUG, LOG_WARNING, LOG_ERROR) else level
    name = {LOG_DEBUG: "debug", LOG_WARNING: "warning", LOG_ERROR: "error"}.get(level, "event %#x" % level)
    _log_event(kind, name, "Hook", "pbs_python", message)


def logjobmsg(jobid, message):
    if not _c_string(jobid, "jobid"):
        raise ValueError("no jobid given!")
    _log_event(8, "job " + jobid, "Job", jobid, message)


def _log_event(kind, name, of, about, message):
    if not isinstance(message, str):
        raise TypeError("argument 2 must be str")
    message.encode()
    os.write(2, ("%s: %s\n" % (name, message)).encode())
    directory, mask = _log
    if directory and kind & mask:
        now = time.localtime()
        with open(os.path.join(directory, time.strftime("%Y%m%d", now)), "ab") as f:
            f.write(("%s;%04x;pbs_python;%s;%s;%s\n" % (time.strftime("%m/%d/%Y %H:%M:%S", now), kind, of, about, message)).encode())


def vnode_state_to_str(bits):
    rest = bits
    for bit, _ in STATES:
        rest &= ~bit
    if rest & ~(4 | 0x200 | 0x400):
        return ""
    return "free" if bits == 0 else ",".join(name for bit, name in STATES if bits & bit)


def str_to_vnode_state(text):
    """A number as text, like the two below (PyUnicode_FromFormat): vnode_state does not take it in a hook."""
    return str(sum(bit for bit, name in STATES if name in _c_string(text, "state").split(",")))


def vnode_sharing_to_str(value):
    return SHARING.get(value, "")


def str_to_vnode_sharing(text):
    return str({name: value for value, name in SHARING.items()}.get(_c_string(text, "sharing"), 0))


def str_to_vnode_ntype(text):
    return "0" if _c_string(text, "ntype") == "PBS" else "-1"


def duration_to_secs(text):
    whole = text.split(".")[0]
    total = 0
    for part in whole.split(":") if whole else []:
        total = total * 60 + int(part)
    return total


def _is_duration(text):
    parts = text.split(".")
    return len(parts) <= 2 and all(p.isdigit() for p in parts[1:]) and 0 < len(parts[0].split(":")) <= 3 and \
        all(p.isdigit() for p in parts[0].split(":"))


def _is_size(text):
    number = text.rstrip("bBwW") if len(text) - len(text.rstrip("bBwW")) <= 1 else ""
    if number[-1:] in tuple("kKmMgGtTpPeE"):
        number = number[:-1]
    return number.isdigit()


def _is_long(text):
    try:
        return -2 ** 63 <= int(text) < 2 ** 63
    except ValueError:
        return False


def _is_float(text):
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def validate_input(table, name, value):
    _c_string(value, "value")
    if not _python_mode:
        return
    right = {"walltime": _is_duration, "size": _is_size, "ctime": _is_long, "": _is_float,
             "Rerunable": lambda v: v in ("0", "1"), "Hold_Types": lambda v: v and not set(v) - set("uosnp")}.get(name, lambda v: True)
    if not right(value):
        raise (BadResourceValueError if table == "resc" else BadAttributeValueError)("input value %s not of the right format for '%s'" % (value, name))


class size(object):
    def __init__(self, value):
        text = str(value)
        if not _is_size(text):
            raise BadResourceValueError("invalid size value %s" % text)
        self._value = text if text[-1] in "bBwW" else text + "b"

    def __str__(self):
        return self._value

    __repr__ = __str__


class duration(int):
    _derived_types = (int,)

    def __new__(cls, value):
        validate_input("resc", "walltime", str(value))
        return int.__new__(cls, duration_to_secs(str(value)))

    def __init__(self, value):
        self.duration_str = str(value)

    def __str__(self):
        return self.duration_str


class pbs_int(int):
    _derived_types = (int, float)

    def __init__(self, value):
        if value != "":
            validate_input("job", "ctime", str(int(value)))


class pbs_float(float):
    _derived_types = (int, float)

    def __init__(self, value):
        validate_input("float", "", str(value))


class pbs_str(str):
    _derived_types = (str,)

    def __init__(self, value):
        validate_input("job", "Job_Owner", value)


class pbs_bool(object):
    _derived_types = (bool,)

    def __init__(self, value):
        v = 1 if value in ("true", "True", "TRUE", "t", "T", "y", "1", 1) else 0 if value in ("false", "False", "FALSE", "f", "F", "n", "0", 0) else -1
        validate_input("job", "Rerunable", str(v))
        self._value = v

    def __str__(self):
        return str(self._value)


class vnode_state(int):
    _derived_types = (int, float)

    def __init__(self, value):
        if value != "" and vnode_state_to_str(int(value)) == "":
            raise BadAttributeValueError("invalid vnode state value '%s'" % value)


class vnode_sharing(int):
    _derived_types = (int, float)

    def __init__(self, value):
        if vnode_sharing_to_str(int(value)) == "":
            raise BadAttributeValueError("invalid vnode sharing value '%s'" % value)


class hold_types(object):
    def __init__(self, value):
        validate_input("job", "Hold_Types", value)
        self._value = value

    def __str__(self):
        return self._value


class _text(object):
    """What attributes with a type of their own have in common here: exec_vnode, path, select ... all are their text."""
    _derived_types = (str,)

    def __init__(self, value):
        self._value = str(value)

    def __str__(self):
        return self._value


def _escape(text):
    """pbs/v1/_base_types.py, replace_char_not_before: a backslash that escapes nothing is doubled."""
    out = ""
    for i, c in enumerate(text):
        if c != "\\" or i > 0 and text[i - 1] == "\\" or i + 1 < len(text) and text[i + 1] in ",'\"\\":
            out += c
        else:
            out += "\\\\"
    return out


class pbs_env(dict):
    _attributes_readonly = ("PBS_ENVIRONMENT PBS_JOBDIR PBS_JOBID PBS_JOBNAME PBS_NODEFILE TMPDIR PBS_O_HOME PBS_O_HOST PBS_O_LANG "
                            "PBS_O_LOGNAME PBS_O_MAIL PBS_O_PATH PBS_O_QUEUE PBS_O_SHELL PBS_O_SYSTEM PBS_O_TZ PBS_O_WORKDIR PBS_QUEUE").split()

    def __init__(self, value, generic=False):
        self._generic = generic
        pairs = {}
        for v in value.replace("\\\\", "\2\2").replace("\\,", "\3\3").split(","):
            name, equals, text = v.replace("\3\3", "\\,").replace("\2\2", "\\\\").partition("=")
            if equals:
                pairs[name] = _escape(text)
        super().__init__(pairs)

    def __setitem__(self, name, value):
        if name in self._attributes_readonly and _python_mode and _event.hook_type == "site" and not self._generic:
            raise BadAttributeValueError("env variable '%s' is readonly" % name)
        super().__setitem__(name, _escape(value) if isinstance(value, str) else value)

    def __str__(self):
        return "".join("%s=%s," % (k, v) for k, v in self.items() if v is not None).rstrip(",")


class _Attribute(object):
    """A data descriptor for one attribute or resource (PbsAttributeDescriptor)."""

    def __init__(self, cls, name, kind, default=None, resource=False):
        self.name, self.kind, self.default, self.resource = name, kind, default, resource
        cls.attributes[name] = None
        setattr(cls, name, self)

    def __get__(self, obj, cls=None):
        if obj is None:
            return self
        values = obj.__dict__.setdefault("__values", {})
        if self.name not in values:
            values[self.name] = self.default if self.default is None else self.kind(self.default)
        return values[self.name]

    def __set__(self, obj, value):
        if not _settable(self, obj, value):
            return
        if value is None and _python_mode:
            value = ""
        elif not (value is None or isinstance(value, str) and value == "" or isinstance(value, self.kind) or
                  self.resource and isinstance(value, str) and value[0] == "@"):
            value = self.kind(value)
        obj.__dict__.setdefault("__values", {})[self.name] = value


def _settable(attribute, owner, value):
    """pbs_python_svr_internal.c, pbsv1mod_meth_is_attrib_val_settable."""
    if not _python_mode:
        return True
    name, resource = (owner._name, attribute.name) if attribute.resource else (attribute.name, "")
    if attribute.name == "_name":
        return True
    if _over:
        raise AssertionError("Not permitted to modify attributes (name=%s,res=%s): an event.accept() or event.reject() already called." % (name, resource))
    if getattr(owner, "_readonly", False):
        raise BadAttributeValueError("attribute '%s' is part of a readonly object" % name)
    if name == "Variable_List":
        raise BadAttributeValueError("attribute '%s' cannot be directly set." % name)
    kinds, label = (_job, pbs_resource, _vnode), "Can only set job,resource,vnode attributes under mom hook event."
    kind = _event.type
    if kind == EXECJOB_LAUNCH:
        kinds += (_Event,)
    elif kind in (EXECJOB_ATTACH, EXECJOB_RESIZE):
        raise AssertionError("nothing is settable inside an %s hook!" % _event_name())
    elif kind == EXECHOST_STARTUP:
        kinds, label = (_vnode, pbs_resource), "Can only set node,resource attributes under exechost_startup event."
    if not isinstance(owner, kinds):
        raise AssertionError(label)
    if value is not None and not isinstance(value, attribute.kind) and not isinstance(value, getattr(attribute.kind, "_derived_types", ())):
        raise (BadResourceValueTypeError if resource else BadAttributeValueTypeError)(
            "value for class <%s> attribute <%s> must be 'None' or '%s'" % (type(owner).__name__, attribute.name, attribute.kind))
    if name == "run_count" and (not isinstance(value, int) or value < 0):
        raise BadAttributeValueError("run_count value must be >= 0")
    return True


class pbs_resource(object):
    attributes = {}

    def __init__(self, name):
        self._attributes_hook_set, self._attributes_unknown = {}, {}
        self._name = name._name if isinstance(name, pbs_resource) else name
        self._readonly = False

    def __getitem__(self, name):
        return getattr(self, name)

    def __setitem__(self, name, value):
        setattr(self, name, value)

    def __contains__(self, name):
        return hasattr(self, name)

    def keys(self):
        return [n for n in pbs_resource.attributes if n != "_name" and getattr(self, n) is not None]

    def __setattr__(self, name, value):
        if name in ("_attributes_hook_set", "_attributes_unknown"):
            if _python_mode and hasattr(self, name):
                raise BadAttributeValueError("the attribute '%s' is readonly" % name)
            return super().__setattr__(name, value)
        if name == "_readonly":
            if _python_mode and hasattr(self, name) and not value:
                raise BadResourceValueError("_readonly can only be set to True!")
        else:
            known = [n for n in pbs_resource.attributes if n.lower() == name.lower()]
            if known:
                name = known[-1]
            else:  # MoM's hooks may define resources
                self._attributes_unknown[name] = None
        super().__setattr__(name, value)
        if _python_mode:
            self._attributes_hook_set[name] = None


class _object(object):
    """What job and vnode have in common."""

    def __setattr__(self, name, value):
        if name == "_attributes_hook_set":
            if _python_mode and isinstance(self, _job):
                raise BadAttributeValueError("the attribute '%s' is readonly" % name)
            return super().__setattr__(name, value)
        if name == "_readonly":
            if _python_mode and hasattr(self, name) and not value:
                raise BadAttributeValueError("_readonly can only be set to True!")
        elif name not in self.own and name not in self.attributes:
            raise UnsetAttributeNameError("%s attribute '%s' not found" % (type(self).__name__[1:], name))
        super().__setattr__(name, value)
        if _python_mode:
            if name != "_connect_server":
                self._attributes_hook_set[name] = None
            self.was_set(name, value)

    def was_set(self, name, value):
        pass


class _job(_object):
    attributes, own = {}, ("_rerun", "_delete", "_checkpointed", "_msmom", "_stdout_file", "_stderr_file")

    def __init__(self, jid):
        self._attributes_hook_set = {}
        self.id, self._readonly = jid, False
        self._rerun = self._delete = self._checkpointed = self._msmom = False
        self._stdout_file = self._stderr_file = None

    def __str__(self):
        return str(self.id)

    def rerun(self):
        self._rerun = True

    def delete(self):
        self._delete = True

    def in_ms_mom(self):
        return self._msmom

    def is_checkpointed(self):
        return self._checkpointed

    def stdout_file(self):
        return self._stdout_file

    def stderr_file(self):
        return self._stderr_file


class _vnode(_object):
    attributes, own = {}, ()

    def __init__(self, name, connect_server=None):
        self._attributes_hook_set = {}
        self.name, self._readonly = name, False

    def __str__(self):
        return str(self.name)

    def was_set(self, name, value):
        """pbsv1mod_meth_mark_vnode_set"""
        if _c_string(str(value), "value") == "":
            raise AssertionError("mark_vnode_set: bad parameter!")


vnode = _vnode


class _Event(object):
    attributes = {}

    def __init__(self, kind, user, host):
        self._param = {}
        self.type, self.requestor, self.requestor_host, self._readonly = kind, user, host, False

    def accept(self, ecode=0):
        global _over
        _verdict[:] = [True, _verdict[1]]
        _over = True
        raise SystemExit(str(ecode))

    def reject(self, emsg="", ecode=255):
        global _over
        _verdict[:] = [False, _c_string(emsg, "message").encode()[:3171].decode("utf-8", "replace")]
        _over = True
        raise SystemExit(str(ecode))

    def __getattr__(self, key):
        if key == "_param":
            raise AttributeError(key)
        try:
            return self._param[key]
        except KeyError:
            raise EventIncompatibleError('"%s" not found in self._param' % key)

    def __setattr__(self, name, value):
        if name == "_readonly":
            if _python_mode and hasattr(self, name) and not value:
                raise BadAttributeValueError("_readonly can only be set to True!")
        elif _python_mode and name in self._param:
            if name not in ("progname", "argv", "env"):
                raise BadAttributeValueError("event attribute '%s' is readonly" % name)
            self._param[name] = value
            return
        elif name not in self.attributes:
            raise UnsetAttributeNameError("event attribute '%s' not found" % name)
        super().__setattr__(name, value)


class _server(object):
    def __init__(self, known):
        self._known = known

    def vnode(self, name):
        return _c_mode(lambda: self._known.get(name))

    def scheduler_restart_cycle(self):
        scheduler_restart_cycle("localhost")


def _c_mode(do):
    global _python_mode
    before, _python_mode = _python_mode, False
    try:
        return do()
    finally:
        _python_mode = before


def server():
    """None when the server cannot be reached, as pbs_statobj answers."""
    path = os.environ.get("PBS_STANDIN_SERVER")
    if not path:
        return None
    with open(path, "rb") as f:
        lines = f.read().decode().splitlines()
    if lines[:1] == ["hang"]:
        time.sleep(3600)
    if lines[:1] == ["refuse"]:
        return None

    def read():
        known = {}
        for line in lines:
            name, state, comment = line.split("\t")
            known[name] = _vnode(name)
            known[name].state = str_to_vnode_state(state)
            known[name].comment = comment or None
        return known
    return _server(_c_mode(read))


def scheduler_restart_cycle(host):
    global _restart
    if host not in ("localhost", "localhost.localdomain"):
        raise NotImplementedError("Allowed only to owning pbs server host")
    _restart = True


def event():
    return _event


def get_local_nodename():
    return _event._node


def get_pbs_server_name():
    return "localhost"


# Attributes and resources by their types: the master_*_attr_def.xml and master_resc_def_all.xml of src/lib/Libattr.
_RESOURCES = ((duration, "cput walltime soft_walltime min_walltime max_walltime pcput"), (size, "mem file pmem vmem pvmem hbmem"),
              (pbs_int, "ncpus nodect mpiprocs ompthreads cpupercent nice hpm ssinodes"), (pbs_float, "energy"),
              (pbs_str, "nodes arch nodemask host vnode site partition resc preempt_targets"), (_text, "select place software"))
_JOB = ((pbs_str, "id Job_Owner server Account_Name exec_host2 exec_host_acct exec_host_orig exec_vnode_acct exec_vnode_deallocated exec_vnode_orig "
         "Remove_Files schedselect_orig jobdir euser egroup hashname security comment cookie alt_id alt_id2 reserve_ID gridname cred accounting_id "
         "Submit_arguments executable argument_list prov_vnode array_id resources_released tolerate_node_failures Submit_Host credential_id queue"),
        (_text, "Job_Name Checkpoint Error_Path exec_host exec_vnode Join_Path Keep_Files Mail_Points Output_Path schedselect sandbox project "
         "depend group_list Mail_Users Shell_Path_List stagein stageout User_List job_state array_index array_indices_submitted Priority"),
        (hold_types, "Hold_Types"), (pbs_env, "Variable_List"), (pbs_bool, "Rerunable array topjob"),
        (pbs_int, "ctime Execution_Time mtime qtime stime session_id substate hop_count etime umask run_count job_kill_delay Stageout_status "
         "Exit_status run_version block interactive accrue_type sample_starttime obittime"),
        (list, "failed_mom_list succeeded_mom_list"), (pbs_resource, "resources_used Resource_List"))
_VNODE = ((pbs_str, "name pbs_version queue comment current_aoe current_eoe partition Mom pnames jobs resv maintenance_jobs"),
          (pbs_int, "Port pcpus Priority max_running in_multivnode_host vnode_pool last_state_change_time last_used_time"),
          (vnode_state, "state"), (vnode_sharing, "sharing"), (pbs_bool, "no_tasks resv_enable no_multinode_jobs provision_enable power_provisioning"),
          (pbs_resource, "resources_available resources_assigned"))
for _cls, _table in ((pbs_resource, _RESOURCES), (_job, _JOB), (_vnode, _VNODE)):
    for _kind, _names in _table:
        for _name in _names.split():
            _Attribute(_cls, _name, _kind, _name if _kind is pbs_resource else None, _cls is pbs_resource)
for _name, _kind in (("type", int), ("hook_name", str), ("hook_type", str), ("requestor", str), ("requestor_host", str), ("_param", dict), ("freq", int),
                     ("_node", str)):
    _Event.attributes[_name] = None


def _event_name():
    return [n for n, v in EVENTS.items() if v == _event.type][0]


def _lines(data):
    """The input file's lines, (object, name, resource, value) as bytes (pbs_python_populate_svrattrl_from_file)."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at) if data.find(b"\n", at) >= 0 else len(data)
        line = data[at:end]
        key, equals, value = line.partition(b"=")
        if value.lstrip().startswith(b'"""') and not (value.rstrip().endswith(b'"""') and len(value.strip()) > 5):
            close = data.find(b'"""\n', at + len(key) + 4)
            end = close + 3 if close >= 0 else len(data)
            value = data[at + len(key) + 1:end]
        at = end + 1
        if not equals:
            continue
        value = value.strip() if value.strip() else value.lstrip()
        if value.startswith(b'"""') and value.endswith(b'"""') and len(value) >= 6:
            value = value[3:-3]
        owner, _, name = key.rpartition(b".")
        name, bracket, resource = name.partition(b"[")
        yield owner.decode(), name.decode(), resource.rstrip(b"]").strip(b'"').decode() if bracket else None, value


def _fill(obj, attributes):
    """Sets what the input file tells; what is not UTF-8 or of no name is left out. Whether all could be set."""
    whole = True
    for name, resource, value in attributes:
        try:
            text = value.decode()
            if name == "state" and isinstance(obj, _vnode):
                text = str_to_vnode_state(text)
            if name == "sharing" and str_to_vnode_sharing(text) != "0":
                text = str_to_vnode_sharing(text)
            if resource is None:
                setattr(obj, name, text)
            elif hasattr(obj, name):
                setattr(getattr(obj, name), resource, text)
        except Exception as e:
            sys.stderr.write("pbs_python: %s: %s\n" % (name, e))
            whole = False
    return whole


def _read(data):
    """Makes the event that an input file tells of (pbs_python.c main, pbs_python_event_set)."""
    global _event
    top, job, vnodes, failed, jobs, argv = {}, [], {}, {}, {}, {}
    node = b""
    for owner, name, resource, value in _lines(data):
        if owner == "pbs.event()":
            if name == "argv":
                argv[int(resource)] = value
            else:
                top[name] = value
        elif owner == "pbs.event().job":
            job.append((name, resource, value))
        elif owner == "pbs" and name == "get_local_nodename()":
            node = value
        else:
            head, _, key = owner.partition("[")
            lists = {"pbs.event().vnode_list": vnodes, "pbs.event().vnode_list_fail": failed, "pbs.event().job_list": jobs}.get(head)
            if lists is not None:
                lists.setdefault(key[:-1].strip('"'), []).append((name, resource, value))
    kind = EVENTS.get(top.get("type", b"").decode())
    if kind is None:
        raise SystemExit("pbs_python: unexpected event")
    _event = e = _Event(kind, top.get("requestor", b"").decode(), top.get("requestor_host", b"").decode())
    e._node, e.hook_name, e.hook_type = node.decode(), top.get("hook_name", b"").decode(), top.get("hook_type", b"").decode()
    if "freq" in top:
        e.freq = int(top["freq"])
    alarm = int(top.get("alarm", b"0"))

    def many(cls, name, source):
        made = {}
        e._param[name] = None
        for key, attributes in source.items():
            made[key] = cls(key)
            if not _fill(made[key], attributes):
                return False
        e._param[name] = made
        return True

    def fill():
        """As pbs_python_event_set: the first that cannot be set ends it, and what comes after is not there."""
        if kind not in (EXECHOST_PERIODIC, EXECHOST_STARTUP):
            ids = [v for n, r, v in job if n == "id"]
            e._param["job"] = _job(ids[0].decode() if ids else "")
            if not _fill(e._param["job"], job):
                return
        if kind == EXECJOB_ATTACH:
            e._param["pid"] = int(top.get("pid", b"-1"))
        if not many(_vnode, "vnode_list", vnodes):
            return
        if kind in (EXECJOB_PROLOGUE, EXECJOB_LAUNCH):
            many(_vnode, "vnode_list_fail", failed)
            e._param["job"].failed_mom_list, e._param["job"].succeeded_mom_list = [], []
        if kind == EXECHOST_PERIODIC:
            many(_job, "job_list", jobs)
        if kind == EXECJOB_LAUNCH:
            for name in ("progname", "argv", "env"):
                e._param[name] = None
                try:
                    e._param[name] = {"progname": lambda: top.get("progname", b"").decode(), "argv": lambda: [argv[i].decode() for i in sorted(argv)],
                                      "env": lambda: pbs_env(top["env"].decode(), True)}[name]()
                except (UnicodeDecodeError, KeyError):
                    return
    fill()
    return alarm


def _external(name, value):
    """return_external_value"""
    if name == "state":
        return vnode_state_to_str(int(value or 0))
    if name == "sharing":
        return SHARING.get(int(value or 0), value)
    return value


def _str(value):
    """pbs_python_object_str: what has no UTF-8 is nothing."""
    try:
        return str(value).encode().decode()
    except UnicodeEncodeError:
        return ""


def _set_lines(head, obj):
    """What a hook has set of an object, as lines of the output file (populate_svrattrl_from_python_class, fprint_svrattrl_list)."""
    for name in obj.attributes:
        value = getattr(obj, name, None)  # a hook may add a name to attributes
        if name in ("id", "name", "queue", "failed_mom_list", "succeeded_mom_list") or value is None:
            continue
        if isinstance(value, pbs_resource):
            for resource in list(pbs_resource.attributes) + list(value._attributes_unknown):
                if resource not in value._attributes_hook_set or resource == "_name":
                    continue
                v = getattr(value, resource)
                kind = {duration: "long", size: "size", pbs_int: "long", pbs_float: "float", _text: "string", pbs_str: "string"}.get(
                    getattr(pbs_resource.__dict__.get(resource), "kind", None))
                text = _str(v)
                if kind is None:
                    kind = "boolean" if isinstance(v, bool) else "long" if isinstance(v, int) else "float" if isinstance(v, float) else \
                        "string" if isinstance(v, str) else "size" if isinstance(v, size) else "string"
                    if isinstance(v, duration):
                        text = str(duration_to_secs(text))
                yield "%s.%s[%s,%s]=%s\n" % (head, name, resource, kind, text)
        elif name in obj._attributes_hook_set:
            text = _external(name, _str(value))
            yield ('%s.%s="""%s"""\n' if name == "Variable_List" else "%s.%s=%s\n") % (head, name, text)


def _write():
    """The output file's text (pbs_python.c main)."""
    e, kind, out = _event, _event.type, []
    accepted, message = _verdict
    if accepted:
        out += ["pbs.event().accept=True\n", "pbs.event().reject=False\n"]
    else:
        out += ["pbs.event().reject=True\n", "pbs.event().accept=False\n"] + (["pbs.event().reject_msg=%s\n" % message] if message else [])
    if kind not in (EXECJOB_ATTACH, EXECJOB_RESIZE):
        job, vnodes = e._param.get("job"), e._param.get("vnode_list")
        if job:
            out += _set_lines("pbs.event().job", job)
        for name in vnodes or {}:
            out += _set_lines('pbs.event().vnode_list["%s"]' % name, vnodes[name])
        if kind == EXECJOB_LAUNCH:
            if "progname" not in e._param:
                os.abort()  # strcmp(progname_orig, NULL)
            out.append("pbs.event().progname=%s\n" % _str(e.progname))
            out += ["pbs.event().argv[%d]=%s\n" % (i, _c_string(a, "argv")) for i, a in enumerate(e.argv)]
            out.append('pbs.event().env="""%s"""\n' % _str(e.env))
        for flag in ("_rerun", "_delete") if job else ():
            if flag in job._attributes_hook_set:
                out.append("pbs.event().job.%s=%s\n" % (flag, getattr(job, flag)))
        for name, j in (e._param.get("job_list") or {}).items():
            head = 'pbs.event().job_list["%s"]' % name
            out += list(_set_lines(head, j)) + ["%s._delete=%s\n" % (head, j._delete), "%s._rerun=%s\n" % (head, j._rerun)]
    if _restart:
        out.append("pbs.server().scheduler_restart_cycle=True\n")
    return "".join(out)


def run(script, options):
    """Runs a hook's script as pbs_python does. Returns its exit status: 0, 254 after an exception, 253 after the alarm."""
    global _python_mode, _over, _log
    import signal
    values = {options[i]: options[i + 1] for i in range(0, len(options) - 1) if options[i] in ("-i", "-o", "-L", "-e")}
    _log = (values.get("-L"), int(values.get("-e", "0xffffffff"), 0))
    with open(values["-i"], "rb") as f:
        alarm = _read(f.read())

    def over(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, over)
    status, process = 0, os.getpid()
    signal.alarm(alarm)
    began = time.perf_counter()
    _python_mode = True
    try:
        if script not in compiled:
            with open(script, "rb") as f:
                compiled[script] = compile(f.read(), "<embedded code object>", "exec")
        exec(compiled[script], {"__builtins__": builtins})
    except SystemExit:
        pass
    except KeyboardInterrupt:
        status = 253
    except BaseException:
        import traceback
        traceback.print_exc()
        status = 254
    if os.getpid() != process:
        os._exit(0)
    signal.alarm(0)
    _python_mode = False
    if "PBS_STANDIN_TIME" in os.environ:
        os.write(2, b"seconds: %.6f\n" % (time.perf_counter() - began))
    if status:
        _verdict[:] = [False, None]
        os.write(2, b"request rejected: an exception or the alarm\n")
    text = _write()
    if "-o" in values:
        with open(values["-o"], "wb") as f:
            f.write(text.encode())
    else:
        os.write(1, text.encode())
    return status


if os.path.basename(sys.argv[0]) not in ("pbs_python.py", "many.py") and "--hook" in sys.argv[1:2]:
    # The script itself was started, and imports us. What it does from here on it does inside run.
    os._exit(run(sys.argv[0], sys.argv[2:]))
