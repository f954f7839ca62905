"""Plugins of PTL's runner, pbs_benchpress --user-plugins=plugin=Results,plugin=Hookhost.

Results writes a line for each test to file descriptor 3. Hookhost is for a lab with hookhost: it
spares what `hookhost openpbs install` has made, and loads the adapter of TestCgroupsHook.
"""

import os
import time

from nose.plugins.base import Plugin
from nose.plugins.skip import SkipTest
from ptl.lib.ptl_constants import HOOK, MGR_CMD_DELETE, MGR_CMD_SET, RSC
from ptl.lib.ptl_wrappers import Wrappers
from ptl.utils.pbs_dshutils import TimeOut

# The hooks and the resources of hookhost.
HOOKS = {"hookhost", "hookhost_cgswap"}
RESOURCES = {"diag_messages", "host_usage", "hookhost"}


class Always(Plugin):
    """A plugin without options."""

    def options(self, parser, env):
        pass

    def configure(self, options, config):
        self.enabled = True


class Results(Always):
    """Writes of each test: name, result, seconds, and the last line of its error."""

    name = "Results"
    began = time.time()

    def startTest(self, test):
        self.began = time.time()

    def addSuccess(self, test):
        self.write(test, "pass")

    def addFailure(self, test, err):
        self.write(test, "fail", err)

    def addError(self, test, err):
        kinds = {SkipTest: "skip", TimeOut: "timeout"}
        self.write(test, next((k for c, k in kinds.items() if issubclass(err[0], c)), "error"), err)

    def write(self, test, result, err=None):
        # An error of setUpClass is one of the suite.
        case = getattr(test, "test", None)
        if case is None:
            name = getattr(getattr(test, "context", None), "__name__", str(test)) + ".setUpClass"
        else:
            name = type(case).__name__ + "." + case._testMethodName
        why = ""
        if err is not None:
            why = " ".join(str(getattr(err[1], "msg", None) or err[1]).split())[:300]
        seconds = int(time.time() - self.began)
        os.write(3, f"{name}\t{result}\t{seconds}\t{why}\n".encode())


class Hookhost(Always):
    """Keeps PTL's setUp from deleting or disabling hookhost's hooks and resources."""

    name = "Hookhost"

    def begin(self):
        order = Wrappers.manager

        def manager(self, cmd, obj_type, attrib=None, id=None, *args, **kwargs):
            ids = id.split(",") if isinstance(id, str) else id
            if ids and spares(cmd, obj_type, attrib):
                ids = [i for i in ids if i not in HOOKS | RESOURCES]
                if not ids:
                    return 0
                id = ids
            return order(self, cmd, obj_type, attrib, id, *args, **kwargs)

        Wrappers.manager = manager

    def startContext(self, context):
        if getattr(context, "__name__", "") == "TestCgroupsHook":
            import cgroups
            cgroups.adapt(context)


def spares(cmd, obj_type, attrib):
    """Whether an order would take a hook or a resource away."""
    if cmd == MGR_CMD_DELETE:
        return obj_type in (HOOK, RSC)
    disables = isinstance(attrib, dict) and str(attrib.get("enabled", "")).lower() == "false"
    return cmd == MGR_CMD_SET and obj_type == HOOK and disables
