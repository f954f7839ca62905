package main

// engine is a way to run a confined command. Its fields are shell lines for the node. $SCRIPT is
// the job's script, $MEM its memory in MB, $ID what start has printed.
type engine struct {
	name, user string

	on, off string // as root, before and after its turn
	run     string // as user: runs a job and waits for its end

	start string // as user: starts a job and prints its id; empty: no crowd
	gone  string // as root: true if the node has nothing left of the job

	services  string // patterns of pgrep -f: what is there between jobs
	attendant string // the same, while a job runs
	events    bool   // MoM calls a hook at each event
}

const (
	qsub      = `qsub -o /dev/null -e /dev/null -l select=1:ncpus=1:mem=${MEM}mb `
	momJob    = pbsHome + `/mom_priv/jobs/$ID.JB`
	pbsCgroup = `/sys/fs/cgroup/memory/pbs_jobs.service/jobid/$ID`
	daemon    = `^(/usr/bin/)?hookhost serve|^/usr/libexec/hookhost/hooks/`
	podman    = `podman --root /run/compare/store --runroot /run/compare/run --storage-driver vfs `
	onHybrid  = podman + `--cgroup-manager cgroupfs --runtime runc `
	container = `run --network none --cpus 1 --memory ${MEM}m --pids-limit 4096 -v /usr:/usr:ro -v ` +
		workDir + `:` + workDir + ` `
	hookhostRun = `hookhost run --report none -l select=1:ncpus=1:mem=${MEM}mb -- /bin/bash $SCRIPT`
	podmanRoot  = ` --rootfs ` + workDir + `/root /bin/bash $SCRIPT`

	inBackground = ` </dev/null >/dev/null 2>&1 & echo $!`
	clientGone   = `[ ! -e /proc/$ID ]`
)

// pbs returns an engine of OpenPBS, with the patterns of its services beside pbs_mom.
func pbs(name, on, off, services string, events bool) engine {
	if services != "" {
		services = "|" + services
	}
	return engine{
		name: name, user: "alice", off: off, events: events,
		// The server sends hooks about a second after a change. MoM then runs exechost_startup.
		on:       on + "; sleep 3; " + hangUp + "; sleep 2",
		run:      qsub + "-z -Wblock=true $SCRIPT",
		start:    qsub + "$SCRIPT",
		gone:     "[ ! -e " + momJob + " ] && [ ! -e " + pbsCgroup + " ]",
		services: "^([^ ]*/)?pbs_mom$" + services,
	}
}

const hookOn, hookOff = `qmgr -c 'set hook hookhost enabled = true'`, `qmgr -c 'set hook hookhost enabled = false'`

var engines = []engine{
	pbs("OpenPBS, no hook", ":", ":", "", false),
	pbs("OpenPBS, pbs_cgroups", "qmgr -c 'set hook pbs_cgroups enabled = true'",
		"qmgr -c 'set hook pbs_cgroups enabled = false'", "", true),
	pbs("OpenPBS, hookhost", hookOn, hookOff, daemon, true),
	pbs("OpenPBS, hookhost --native", hookOn+"; hookhost openpbs install --native",
		"hookhost openpbs uninstall --native; "+hookOff, daemon, true),
	{
		name: "Slurm, sbatch", user: "alice",
		run:   "sbatch -W -Q -n1 --mem=$MEM -o /dev/null $SCRIPT",
		start: "sbatch --parsable -n1 --mem=$MEM -o /dev/null $SCRIPT",
		gone: `! compgen -G "/var/lib/slurm/slurmd/job*$ID" && ` +
			`! compgen -G "/sys/fs/cgroup/freezer/slurm*/uid_*/job_$ID"`,
		services:  "^slurmd|^munged",
		attendant: "^slurmstepd",
	},
	{
		name: "Slurm, srun", user: "alice",
		run: "srun -Q -n1 --mem=$MEM /bin/bash $SCRIPT",
	},
	{
		name: "podman run", user: "root",
		run:   onHybrid + container + "--rm" + podmanRoot,
		start: onHybrid + container + "-d --rm" + podmanRoot,
		gone: "[ ! -e /sys/fs/cgroup/memory/libpod_parent/libpod-$ID ] && " +
			"[ ! -e /run/compare/store/vfs-containers/$ID ]",
		attendant: "^[^ ]*conmon ",
	},
	hookhostAlone,
}

var hookhostAlone = engine{
	name: "hookhost run", user: "root",
	run:       hookhostRun,
	start:     hookhostRun + inBackground,
	gone:      clientGone,
	services:  daemon,
	attendant: "^hookhost run",
}
