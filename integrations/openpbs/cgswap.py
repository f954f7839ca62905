# This hook runs in the PBS server at queuejob and modifyjob. Where a job asks for two of mem, vmem
# and cgswap, it fills in the third: vmem is mem and cgswap together. So the scheduler can count swap
# by itself. It follows the stock hook with manage_cgswap (openpbs pbs_cgroups.PY, fill_cgswap).
# Three values that agree are taken: a job that was filled in may be moved, or altered as a whole.
import re

import pbs

NAMES = ("mem", "vmem", "cgswap")
SIZE = re.compile(r"(\d+)([kmgtp]?)([bw]?)$", re.IGNORECASE)
# Values may be quoted, and then have any character.
CHUNKS = re.compile(r"""(?:"[^"]*"|'[^']*'|[^+"'])+""")
PARTS = re.compile(r"""(?:"[^"]*"|'[^']*'|[^:"'])+""")


class Contradiction(Exception):
    pass


def bytes_of(text):
    """A size in bytes; None for what is none, which the server refuses itself."""
    found = SIZE.match(str(text).strip().strip("\"'"))
    if found is None:
        return None
    number, unit, kind = found.groups()
    return int(number) * (8 if kind in ("w", "W") else 1) << 10 * " kmgtp".index(unit.lower() or " ")


def size(number):
    """A size as PBS writes it."""
    return "%dkb" % (number >> 10) if number % 1024 == 0 else "%db" % number


def complete(asked):
    """The missing one of the three by the two others, as (name, size); None where it does not follow."""
    have = {name: bytes_of(text) for name, text in asked.items()}
    if None in have.values() or len(have) < 2:
        return None
    mem, vmem, cgswap = (have.get(name) for name in NAMES)
    if len(have) == 3:
        if vmem != mem + cgswap:
            raise Contradiction("chunk specification overconstrained, specify only 2 of mem/vmem/cgswap")
        return None
    if cgswap is None:
        if mem > vmem:
            raise Contradiction("invalid specification: mem>vmem")
        return "cgswap", size(vmem - mem)
    if vmem is None:
        return "vmem", size(mem + cgswap)
    if cgswap >= vmem > 0:
        raise Contradiction("invalid specification: mem<=0")
    return "mem", size(vmem - cgswap)


def fill_chunk(chunk):
    asked = {}
    for part in PARTS.findall(chunk):
        name, _, value = part.partition("=")
        if name.strip().lower() in NAMES:
            asked[name.strip().lower()] = value
    got = complete(asked)
    return chunk if got is None else "%s:%s=%s" % ((chunk,) + got)


def resources(job):
    """Those of the three that a job has for itself, without a select."""
    if job is None:
        return {}
    return {name: job.Resource_List[name] for name in NAMES if job.Resource_List[name] is not None}


def merged(new, old):
    """What a job asks for once new is in force. A new mem leaves vmem, another new one leaves mem."""
    both = dict(old)
    both.update(new)
    if len(both) == 3 and len(new) == 1:
        del both["vmem" if "cgswap" in new else "cgswap"]
    elif len(both) == 3 and len(new) == 2:
        return dict(new)
    return both


def fill(event):
    job = event.job
    if not hasattr(job.Resource_List, "cgswap"):
        return  # the server does not know the resource
    select = job.Resource_List["select"]
    if select:
        text = str(select)
        filled = "+".join(fill_chunk(c) for c in CHUNKS.findall(text))
        if filled != text:
            job.Resource_List["select"] = pbs.select(filled)
        if event.type == pbs.MODIFYJOB and job.Resource_List["cgswap"] is None:
            job.Resource_List["cgswap"] = None  # or the server keeps the sum of the select before
        return
    new = resources(job)
    if not new:
        return
    old = resources(event.job_o) if event.type == pbs.MODIFYJOB else {}
    got = complete(merged(new, old))
    if got is not None:
        job.Resource_List[got[0]] = pbs.size(got[1])


event = pbs.event()
try:
    fill(event)
except Contradiction as e:
    event.reject(str(e))
event.accept()
