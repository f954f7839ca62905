// Package hostapi is all that the author of a hook imports. The package has the events of a PBS
// job's life on a node with their data, and a hook's answers. Serve makes a program of a hook.
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
//	exechost_startup    once, before any of these, and again after a restart of the program
//	exechost_periodic   every freq seconds, and when a hook asked to be called again
//
// The table has what each event promises and asks. All must be idempotent: the host replays an
// event once after a crash of the program. The last column is for a hook that no earlier event of
// the job came to.
//
//	event       when                            a reject              the first event here
//	startup     the host or the program starts  is logged             find again what
//	                                                                  JobList has, remove
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
//	            start is to be taken in         outside
//	resize      the resources of a running job  the job is requeued   do begin's part with
//	            changed: all of it or nothing                         the new resources
//	postsuspen  the job's processes were        is logged; the job    accept
//	d           stopped; its place may go to    is suspended all the
//	            others                          same
//	preresume   before a suspended job goes on  it stays suspended    accept
//	preterm     before the job is killed on     the job is not        accept
//	            request                         killed
//	abort       the start failed after begin    is logged             remove what there is
//	epilogue    the leading program has ended   is logged             measure what there is
//	end         last of all, on every host      is logged             remove what there is
//	periodic    every freq seconds, or when a   is logged             JobList: the jobs that
//	            time that a hook asked for has                        live
//	            come
//
// The first reject or error at some events ends the chain of hooks: hooks of higher order are not
// asked. These are begin, prologue, launch, attach, resize, preresume and preterm. All other events
// reach every hook, and their answers are joined (Event.StopsAtReject).
//
// When the start of a job fails, abort goes, in reverse order, to the hooks that accepted begin.
// Abort also goes to a hook that crashed in begin, overran its alarm or failed internally. A hook
// that rejects, or answers with an error of kind job, busy or node, leaves nothing behind by
// itself. When a hook refuses preresume, those that accepted it get postsuspend again, in reverse
// order.
//
// A hook must bear an end without a begin: it may have been registered in between. A hook returns
// as Outcome.State what it has to remember of a job. Job.State gives that back, also after a
// restart of its program or of hookhost. A hook keeps nothing of jobs on disk. For facts of the
// node there is the directory Setup.Host["state_dir"].
//
// The cgroup hook answers the events of a job that runs like this:
//
//	resize       gives the job its new cpus, NUMA nodes and limits, and leaves it the cpus that
//	             it can. Less memory than the job uses and cannot give back is refused (busy),
//	             and so is what others hold; nothing has changed then. From ncpus=0 to more, or
//	             back, is not possible on cgroup v1
//	postsuspend  freezes every process in the job's cgroup, whatever session it is in, and
//	             marks the cgroup: execjob_begin gives the job's cpus and memory to others when
//	             there is no other place. Its pages stay: without swap, memory can run out. A
//	             process that does not stop within 3 seconds is named in the log and stops when
//	             it can
//	preresume    thaws it; the job has its place again. Two jobs may share cpus then
//	preterm      thaws a suspended job, so that it takes its SIGTERM
//	launch       of a suspended job: refused (busy) when the caller starts the program; the
//	             caller is frozen with it otherwise
//	attach       to a suspended job: the process stops as it enters
//
// A suspended job's wall time stands still. The job can end or be killed like any other. A hook
// that dies within one of these events finishes it when it is called again. Otherwise
// exechost_startup makes the kernel agree with the mark.
//
// # Concurrency and time
//
// A hook gets one event of a job at a time and events of several jobs at once. exechost_periodic
// and exechost_startup may come beside the events of a job. The alarm of the hook is the deadline
// of ctx. A hook that is still busy then is killed and its job rejected, so a wait has to watch
// ctx. Request and Outcome belong to the call: keep copies.
//
// Time comes to a hook by Outcome.CallAgain and Outcome.CallAtElapsed, not by timers of its own,
// which die with the program. CallAgain is a time from now. CallAtElapsed is a time that the job
// has run (Job.Elapsed): it does not come before the first launch nor while the job is suspended.
// Neither minds who sets the wall clock, and the host keeps both over its restarts. A hook has one
// time for each job: the last one counts.
//
// The call is an exechost_periodic with Request.Partial: one for all jobs of the hook that are due
// together, in JobList. Jobs that come due while the hook is at such a call are in the next one. If
// a call takes longer than a second, another may come at the same time, with other jobs. A job that
// an event is at waits for its end. Five things to know:
//
//   - A call may come before its time, twice, or late after a crash. So look at Job.Elapsed or the
//     clock, not at why you are called, and ask again when it is too early.
//   - An error concerns all jobs of the call, and all are called for again 30 seconds later; Jobs
//     beside it count. A hook that fails with one job of many says so in a note or its log, and
//     asks for that job to be called again.
//   - The host has one report of an error, and the hook's fail_action does not act: no event of
//     PBS is there to carry it.
//   - A call that asks for an elapsed time no later than the one that has come is a mistake: that
//     call is made 30 seconds later.
//   - To take a time back, ask for one that is far away, or answer the call by asking for none.
//     When the job ends all are dropped.
//
// # The environment of attached processes
//
// Each process that somebody brings into a job has an attach. mpirun may start hundreds in a second
// by ssh. So the part that follows from the job alone is told once: Outcome.AttachEnv at begin and
// at resize. The host writes it into the job's record and gives it to each attach. A resize that is
// rejected changes nothing. A hook implements execjob_attach only for what it does to the one
// process.
//
// A record that was lost comes back without these variables. A hook that sets them tells them in
// JobUpdate.AttachEnv too, at exechost_startup and exechost_periodic.
//
// # Between events
//
// A hook may learn something while no event calls it, such as that the kernel killed a process of
// the job. Then it calls Setup.Tell. The host takes the update over at once: it is in `hookhost
// jobs` and in the report. Its job_stderr lines are in the outcome of epilogue, with which MoM
// writes them to the job's standard error. A notice waits for no event and holds up none. Three
// things to know:
//
//   - The host may die before it has noted a notice, and the hook cannot see that. So tell totals
//     and tell them again, at exechost_startup and at epilogue: each text reaches the job's
//     standard error once. Two events of one kind need two texts, and a text, once told, has to
//     stay as it was.
//   - A hook can tell 256 things at once and then 20 a second. Further ones wait in its program,
//     up to 4096 notices or 8 MiB. Beyond that they are dropped, and so are those about a job that
//     does not live here or is in its last events. All of that is logged.
//   - State in a notice counts only while no event of the job is under way. Keep it in outcomes
//     where you can.
//
// # The merge of several outcomes
//
// The hooks run in ascending order. Later hooks see what earlier ones changed of progname, argv and
// env.
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
// "One hook" means: two that set it to different values are an error that names both. The host
// refuses an outcome with a key that the event does not take (Outcome.Check). An outcome beside an
// error holds what the hook found out before it failed. Its usage, resources_used, diag,
// job_stderr, notes, jobs, vnodes and state are used, the rest is not.
//
// # Errors
//
// A plain reject (Outcome.Reject) says that the job may not. job_action says what becomes of the
// job; if it is "", PBS's own rule for the event holds. An error says that the hook could not, and
// its Kind who has to act. A panic is an error of KindInternal. At begin, prologue and launch the
// kind also decides about the job:
//
//	kind        who acts                     the job          fail_action
//	job         the user                     is deleted       -
//	busy        nobody: time heals it        is requeued      -
//	node        the administrator            is requeued      acts
//	timeout     set by the host: the alarm   is requeued      acts
//	internal    the hook's author            is held          acts
//
// # Numbers and units
//
// Resource values stay as PBS writes them ("64mb", "00:10:00"), in Resources. Everywhere else
// numbers are plain: bytes, with 1 kb = 1024 bytes; seconds, where the key ends in _seconds and for
// job_kill_delay. call_again, call_at_elapsed, walltime_limit and elapsed are nanoseconds, a
// time.Duration in Go. Process start times are clock ticks since boot, as in /proc. A counter that
// nobody measured is absent, never 0. User and group ids are -1 when the event did not say.
package hostapi
