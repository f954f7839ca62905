/*
 * A libnvidia-ml.so.1 for tests: a machine with eight A100, made up after nvml.h and the layout of a DGX A100.
 *
 * Each GPU has two NVLinks to its neighbour (0-1, 2-3, ...) and ten to switches. GPU 7 is in MIG mode and has two instances.
 * GPU 0 has accounted processes. What else happens is in the file "mode" beside the library, one word a line:
 *
 *   hang      nvmlInit does not return; its pid is in the file "hangs" then
 *   fail      nvmlInit: driver/library version mismatch
 *   unloaded  nvmlInit: the driver is not loaded
 *   empty     no GPUs
 *   lost      GPU 3 fell off the bus: it opens and answers nothing
 *   closed    GPU 5 does not open
 *   root      accounting mode needs rights that the caller has not
 *
 * Compiled with -DOLD it is the library of a driver before 450: no MIG, no energy, no remote type of an NVLink, no flags at
 * initialisation, and the links to switches look like links to nowhere.
 *
 *   gcc -shared -fPIC -o libnvidia-ml.so.1 stub.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED = 9,
	GPU_IS_LOST = 15, MISMATCH = 18 };

#define GIB (1ULL << 30)

struct device { int index, gi, ci; }; /* gi < 0: a GPU */
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; };
struct memory { unsigned long long total, free, used; };
struct sample { unsigned long long at; union { unsigned u; unsigned long long all; } value; };
struct stats { unsigned gpu, memory; unsigned long long peak, time, start; unsigned running, reserved[5]; };

static struct device gpus[8] = {{0, -1, -1}, {1, -1, -1}, {2, -1, -1}, {3, -1, -1}, {4, -1, -1}, {5, -1, -1}, {6, -1, -1}, {7, -1, -1}};
static struct device parts[2] = {{7, 1, 0}, {7, 5, 0}};
static const unsigned buses[8] = {0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd};

static FILE *beside(const char *name, const char *how)
{
	Dl_info self;
	char path[4096];
	if (!dladdr((void *)beside, &self))
		return NULL;
	const char *slash = strrchr(self.dli_fname, '/');
	snprintf(path, sizeof path, "%.*s/%s", slash ? (int)(slash - self.dli_fname) : 1, slash ? self.dli_fname : ".", name);
	return fopen(path, how);
}

static int mode(const char *word)
{
	char line[64];
	int found = 0;
	FILE *f = beside("mode", "r");
	while (f && !found && fscanf(f, "%63s", line) == 1)
		found = !strcmp(line, word);
	if (f)
		fclose(f);
	return found;
}

static int lost(struct device *d) { return d->index == 3 && mode("lost") ? GPU_IS_LOST : SUCCESS; }

const char *nvmlErrorString(int r)
{
	switch (r) {
	case SUCCESS: return "Success";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NOT_SUPPORTED: return "Not Supported";
	case NO_PERMISSION: return "Insufficient Permissions";
	case NOT_FOUND: return "Not Found";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case GPU_IS_LOST: return "GPU is lost";
	case MISMATCH: return "Driver/library version mismatch";
	}
	return "Unknown Error";
}

int nvmlInit_v2(void)
{
	if (mode("hang")) {
		FILE *f = beside("hangs", "w");
		if (f) {
			fprintf(f, "%d\n", getpid());
			fclose(f);
		}
		for (;;)
			pause();
	}
	return mode("fail") ? MISMATCH : mode("unloaded") ? DRIVER_NOT_LOADED : SUCCESS;
}

#ifdef OLD
int nvmlInit(void) { return nvmlInit_v2(); }
#else
int nvmlInitWithFlags(unsigned flags) { return flags == 1 ? nvmlInit_v2() : INVALID_ARGUMENT; }
#endif

int nvmlSystemGetDriverVersion(char *s, unsigned n)
{
	snprintf(s, n, "550.54.15");
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = mode("empty") ? 0 : 8;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **d)
{
	if (i >= 8)
		return INVALID_ARGUMENT;
	if (i == 5 && mode("closed"))
		return NO_PERMISSION;
	*d = &gpus[i];
	return SUCCESS;
}

int nvmlDeviceGetUUID(struct device *d, char *s, unsigned n)
{
	if (d->gi < 0)
		snprintf(s, n, "GPU-00000000-0000-0000-0000-00000000000%d", d->index);
	else
		snprintf(s, n, "MIG-00000000-0000-0000-0000-0000000000%d%d", d->index, d->gi);
	return lost(d);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **d)
{
	char s[96];
	for (int i = 0; i < 10; i++) {
		*d = i < 8 ? &gpus[i] : &parts[i - 8];
		nvmlDeviceGetUUID(*d, s, sizeof s);
		if (!strcmp(s, uuid))
			return lost(*d);
	}
	return NOT_FOUND;
}

int nvmlDeviceGetName(struct device *d, char *s, unsigned n)
{
	snprintf(s, n, "NVIDIA A100-SXM4-40GB%s", d->gi < 0 ? "" : d->gi == 1 ? " MIG 3g.20gb" : " MIG 1g.5gb");
	return lost(d);
}

static void address(struct pci *p, unsigned bus)
{
	memset(p, 0, sizeof *p);
	p->bus = bus;
	snprintf(p->text, sizeof p->text, "%08X:%02X:%02X.0", p->domain, bus, p->device);
}

int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *p)
{
	address(p, buses[d->index]);
	return lost(d);
}

int nvmlDeviceGetPciInfo_v2(struct device *d, struct pci *p) { return nvmlDeviceGetPciInfo_v3(d, p); }

/* The minors do not follow the PCI order, as on a DGX. */
int nvmlDeviceGetMinorNumber(struct device *d, unsigned *n)
{
	*n = d->index ^ 2;
	return lost(d);
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m)
{
	m->total = d->gi < 0 ? 40 * GIB : d->gi == 1 ? 20 * GIB : 5 * GIB;
	m->used = (d->index + 1) * GIB / 2;
	return lost(d);
}

int nvmlDeviceGetNvLinkState(struct device *d, unsigned link, unsigned *on)
{
	if (link >= 18)
		return INVALID_ARGUMENT;
	if (link >= 12 || d->index == 7)
		return NOT_SUPPORTED;
	*on = link != 11; /* the last one is down */
	return lost(d);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *d, unsigned link, struct pci *p)
{
	address(p, link < 2 ? buses[d->index ^ 1] : 0xc4);
	return SUCCESS;
}

int nvmlDeviceSetAccountingMode(struct device *d, unsigned on)
{
	FILE *f;
	if (d->index == 7)
		return NOT_SUPPORTED;
	if (mode("root"))
		return NO_PERMISSION;
	if ((f = beside("accounting", "a"))) {
		fprintf(f, "%d %u\n", d->index, on);
		fclose(f);
	}
	return lost(d);
}

int nvmlDeviceGetAccountingPids(struct device *d, unsigned *n, unsigned *pids)
{
	unsigned room = *n;
	if (d->index == 7)
		return d->gi < 0 ? NOT_SUPPORTED : INVALID_ARGUMENT;
	*n = d->index ? 0 : 3;
	if (room < *n)
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < *n; i++)
		pids[i] = 1000 + i;
	return SUCCESS;
}

int nvmlDeviceGetAccountingStats(struct device *d, unsigned pid, struct stats *s)
{
	memset(s, 0, sizeof *s);
	switch (pid) {
	case 1000: /* over */
		*s = (struct stats){.gpu = 87, .memory = 20, .peak = 3 * GIB, .time = 90000, .start = 1700000000000000};
		return SUCCESS;
	case 1001: /* running, and what it uses is not known */
		*s = (struct stats){.gpu = -1, .memory = -1, .peak = -1, .start = 1700000100000000, .running = 1};
		return SUCCESS;
	}
	return NOT_FOUND; /* forgotten since */
}

int nvmlDeviceGetPowerUsage(struct device *d, unsigned *mw)
{
	if (d->gi >= 0)
		return NOT_SUPPORTED;
	*mw = 250000 + d->index;
	return lost(d);
}

#ifndef OLD
/* GPU 0 has samples at 1, 2 and 3 ms after 1970 of 20, 40 and 90 %, and the others have none. */
int nvmlDeviceGetSamples(struct device *d, int type, unsigned long long since, int *kind, unsigned *n, struct sample *samples)
{
	static const unsigned percent[3] = {20, 40, 90};
	unsigned found = 0;
	if (type != 1 || d->gi >= 0)
		return type != 1 ? INVALID_ARGUMENT : NOT_SUPPORTED;
	*kind = 1;
	if (samples)
		memset(samples, 0, *n * sizeof *samples);
	for (unsigned i = 0; i < 3 && d->index == 0; i++) {
		if ((i + 1) * 1000 <= since)
			continue;
		if (samples && found < *n) {
			samples[found].at = (i + 1) * 1000;
			samples[found].value.u = percent[i];
		}
		found++;
	}
	*n = samples ? *n : found + (found > 0); /* room for one more, as the driver asks for */
	return lost(d) ? lost(d) : found ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMigMode(struct device *d, unsigned *current, unsigned *pending)
{
	*current = d->index == 7;
	*pending = 0;
	return d->index == 6 ? NOT_SUPPORTED : lost(d);
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned *n)
{
	*n = 7;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned i, struct device **part)
{
	if (d->index != 7 || (i != 0 && i != 4))
		return NOT_FOUND;
	*part = &parts[i == 4];
	return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(struct device *d, unsigned *id)
{
	*id = d->gi;
	return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(struct device *d, unsigned *id)
{
	*id = d->ci;
	return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *d, unsigned link, unsigned *type)
{
	*type = link < 2 ? 0 : 2;
	return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(struct device *d, unsigned long long *mj)
{
	if (d->gi >= 0)
		return NOT_SUPPORTED;
	*mj = 5000000 + d->index;
	return lost(d);
}
#endif
