// Package hostapi is the only package that the author of a hook needs. It defines the events of a
// PBS job's life on a node, with their data, and the answers of a hook. Serve turns a hook into a
// program.
//
//	type limit struct{ Most int `toml:"most"` }
//
//	func newLimit(s *hostapi.Setup) (any, error) {
//		l := &limit{Most: 4}
//		return l, s.Decode(l)
//	}
//
//	func (l *limit) ExecjobBegin(
//		ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) { ... }
//
//	func main() { hostapi.Serve(newLimit) }
//
// Events, their names and their rules are those of the MoM hooks of PBS. hooktest runs a hook in a
// test. docs/hooks.md walks through a whole hook. docs/events.md has every key of a Request and an
// Outcome.
//
// # The life of a job on one host
//
//	begin ──► prologue ──► launch ──► job runs ──► epilogue ──► end
//	  │          │                      │   ▲                    ▲
//	  │ a reject, here or on            └───┘ any number of      │
//	  │ another host                          launch, attach,    │
//	  │          │                            resize, preterm,   │
//	  │          │                            postsuspend,       │
//	  └──────────┴──► abort ─────┐            preresume          │
//	                             └───────────────────────────────┘
//
//	exechost_startup    before any of these, and again when MoM or the program has restarted
//	exechost_periodic   every freq seconds, and when a hook asked to be called again
//
// The table shows what each event promises and requires. All must be idempotent: if the program
// crashes, the host replays the event once. The last column is for a hook that has not seen any
// earlier event of the job.
//
//	event       when                            a reject              the first event here
//	startup     the host or the program starts  is logged             find what
//	                                                                  JobList names, remove
//	                                                                  the rest
//	begin       on every host of the job,       the job does not      it is the first
//	            before anything of it runs      start; abort for
//	            there                           hooks that took it
//	prologue    on every host, after begin      the job is requeued   do begin's part or
//	                                                                  accept
//	launch      before each program that MoM    it is not started;    do begin's part or
//	            starts                          the first: job is     reject
//	                                            deleted
//	attach      a process that MoM did not      the process stays     reject
//	            start joins the job             outside
//	resize      the resources of a running job  the job is requeued   do begin's part with
//	            changed: all or nothing                               the new resources
//	post-       the job's processes were        is logged; the job    accept
//	suspend     stopped; its place may go to    stays suspended
//	            others
//	preresume   before a suspended job resumes  it stays suspended    accept
//	preterm     before the job is killed on     the job is not        accept
//	            request                         killed
//	abort       the start failed after begin    is logged             remove what exists
//	epilogue    the leading program has ended   is logged             measure what exists
//	end         last of all, on every host      is logged             remove what exists
//	periodic    every freq seconds, or when a   is logged             JobList: the jobs that
//	            time that a hook asked for                            live
//	            has come
//
// The first reject or error at some events ends the chain of hooks: hooks of higher order are not
// asked. These are begin, prologue, launch, attach, resize, preresume and preterm. All other events
// reach every hook, and their answers are joined (Event.StopsAtReject). An error at preterm is only
// logged: unlike a reject, it does not keep the job alive.
//
// When the start of a job fails, abort goes, in reverse order, to the hooks that accepted begin.
// Abort also goes to a hook that crashed in begin, overran its alarm or failed internally. A hook
// that rejects, or answers with an error of kind job, busy or node, cleans up by itself. When a
// hook refuses preresume, those that accepted it get postsuspend again, in reverse order.
//
// A hook must accept an end without a begin: it may have been registered in between. A hook returns
// what it must remember about a job as Outcome.State. Job.State returns it later, even after a
// restart of its program or of hookhost. A hook stores nothing about jobs on disk. For facts about
// the node, use the directory Setup.Host["state_dir"].
//
// The cgroup hook answers the events of a job that runs like this:
//
//	resize       gives the job its new cpus, NUMA nodes and limits, and keeps the cpus that
//	             it can. If the job uses more memory than the new limit and cannot free it, or
//	             other jobs hold the resources, the resize is refused (busy) and nothing
//	             changes. From ncpus=0 to more, or back, is not possible on cgroup v1
//	postsuspend  freezes every process in the job's cgroup, whatever session it is in. From
//	             then on execjob_begin gives the job's cpus and memory to others if there is no
//	             other place. Its pages stay: without swap, memory can run out. A process that
//	             does not stop within 3 seconds is named in the log and stops when it can
//	preresume    thaws the processes; the job has its place again. Two jobs may then share cpus
//	preterm      thaws a suspended job, so that it takes its SIGTERM
//	launch       of a suspended job: refused (busy) if the caller starts the program; otherwise
//	             the caller is frozen with it
//	attach       to a suspended job: the process stops as it enters
//
// A suspended job's walltime stands still. The job can end or be killed like any other. A hook that
// dies during one of these events completes it when it is called again. Otherwise exechost_startup
// and exechost_periodic report the difference, and the host repeats the event.
//
// # Concurrency and time
//
// A hook gets events of one job one at a time, and events of several jobs at once.
// exechost_periodic and exechost_startup may overlap with the events of a job. The alarm of the
// hook is the deadline of ctx. A hook that is still busy then is killed and its job rejected, so
// every wait must watch ctx. Request and Outcome belong to the call: copy what you need later.
//
// To be called at a certain time, a hook sets Outcome.CallAgain or Outcome.CallAtElapsed. It does
// not use timers, which die with the program. CallAgain is a time from now. CallAtElapsed is a time
// that the job has run (Job.Elapsed): it does not come before the first launch nor while the job is
// suspended. Changes to the wall clock affect neither, and both survive restarts of the host. A
// hook has one time for each job: the last one counts.
//
// The call is an exechost_periodic with Request.Partial. One call covers all jobs of the hook that
// are due together, in JobList. Calls may overlap, with different jobs. A job with an event under
// way waits until that ends. Five things to know:
//
//   - A call may come before its time, twice, or late after a crash. So check Job.Elapsed or the
//     clock, not the reason for the call, and ask again if it is too early.
//   - An error concerns all jobs of the call, and all are due again 30 seconds later; Jobs in the
//     same answer count. A hook that fails for one job of many says so in a note or its log, and
//     asks to be called again for that job.
//   - The host logs an error once, and the hook's fail_action does not act: there is no event of
//     PBS to carry it.
//   - A call that asks for an elapsed time no later than the one that has come is a mistake: that
//     call is made 30 seconds later.
//   - To cancel a time, ask for one in the distant future, or answer the call by asking for none.
//     When the job ends, all are dropped.
//
// # The environment of attached processes
//
// Each process that is brought into a job has an execjob_attach. A launcher may start hundreds of
// them in a second. So variables that depend only on the job are set once: Outcome.AttachEnv at
// begin and at resize. The host writes them into the job's record and adds them to each attach. A
// resize that is rejected changes nothing. A hook implements execjob_attach only for what concerns
// the individual process.
//
// A record that was lost comes back without these variables. A hook that sets them also returns
// them in JobUpdate.AttachEnv, at exechost_startup and exechost_periodic.
//
// # Between events
//
// A hook may learn something between events, such as that the kernel killed a process of the job.
// It returns that in Outcome.Jobs of the next exechost_periodic, and again at epilogue. The host
// calls periodic every freq seconds, when a hook has asked for it, and when somebody asks for the
// report of the live job. Two things to know:
//
//   - The hook's program may die before the next event. So store what must not be lost where the
//     next program finds it. For example, hook cgroup writes it to the job's cgroup.
//   - Return totals, and always the same words. Each text reaches the job's standard error once,
//     however often it is returned. So two events of one kind need two texts.
//
// # The merge of several outcomes
//
// The hooks run in ascending order. Later hooks see the changes of earlier ones to progname, argv
// and env.
//
//	reject, message, job_action     of the first hook that rejects; at events that reach every
//	                                hook, all their messages
//	progname, argv                  of the last hook that sets it, so wrappers go around wrappers
//	set_env, unset_env              one hook per variable
//	attach_env                      one hook per variable, with set_env of attach
//	resources_used                  one hook per resource
//	usage                           one hook per field
//	diag, job_stderr, notes         of all hooks, in order
//	jobs                            the same for each job by itself
//	vnodes                          one hook per vnode and resource, and per vnode one for its
//	                                sharing, state and comment
//	walltime_limit                  one hook per job
//	state, call_again,              each hook's own
//	call_at_elapsed
//
// "One hook" means: if two hooks set it to different values, that is an error that names both. The
// host refuses an outcome with a key that the event does not take (Outcome.Check). An outcome that
// accompanies an error holds what the hook measured before it failed. Its usage, resources_used,
// diag, job_stderr, notes, jobs, vnodes and state are used, and nothing else.
//
// # Errors
//
// A plain reject (Outcome.Reject) means that the job is not allowed to go on. job_action says what
// becomes of the job; if it is "", PBS's own rule for the event applies. An error means that the
// hook failed, and its Kind says who has to act. A panic is an error of KindInternal. At begin,
// prologue and launch the kind also decides what becomes of the job:
//
//	kind        who acts                     the job          the node
//	job         the user                     is deleted       -
//	busy        nobody: it passes            is requeued      -
//	node        the administrator            is requeued      on_node_error
//	timeout     set by the host: the alarm   is requeued      on_alarm
//	internal    the hook's author            is held          on_defect
//
// The last column is an attribute of the hook. It says whether the host's vnodes go offline, too,
// or whether the event goes on without the hook instead (docs/hooks.md).
//
// # Numbers and units
//
// Resource values stay as PBS writes them ("64mb", "00:10:00"), in Resources. Everywhere else
// numbers are plain: bytes, with 1 kb = 1024 bytes; seconds, where the key ends in _seconds and for
// job_kill_delay. call_again, call_at_elapsed, walltime_limit and elapsed are nanoseconds, a
// time.Duration in Go. Process start times are clock ticks since boot, as in /proc. A counter that
// was not measured is absent, never 0. User and group ids are -1 when the event did not say.
package hostapi
