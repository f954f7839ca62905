/*
Package hostapi is all that the author of a hook imports: the events of a PBS job's life on a node, what they carry, what a
hook answers, and Serve, which makes a program of it.

	type limit struct{ Most int `toml:"most"` }

	func newLimit(s *hostapi.Setup) (any, error) {
		l := &limit{Most: 4}
		return l, s.Decode(l)
	}

	func (l *limit) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) { ... }

	func main() { hostapi.Serve(newLimit) }

Events, their names and their rules are those of the MoM hooks of PBS. hooktest runs a hook in a test; docs/hooks.md
walks through a whole hook; docs/events.md has every key of a Request and an Outcome.

# The life of a job on one host

	execjob_begin ──► execjob_prologue ──► execjob_launch ──► job runs ──► execjob_epilogue ──► execjob_end
	      │                  │                                 │    ▲                                ▲
	      │ a reject, here or on another host                  └────┘ any number of:                 │
	      │                  │                                        execjob_launch                 │
	      └──────────────────┴──► execjob_abort ──────────────┐       execjob_attach                 │
	                                                          │       execjob_resize                 │
	                                                          │       execjob_postsuspend, _preresume│
	                                                          │       execjob_preterm                │
	                                                          └──────────────────────────────────────┘

	exechost_startup    once, before any of these, and again after the hook's program was restarted
	exechost_periodic   every freq seconds, and when a hook asked to be called again

What each event promises and asks. Every one may come twice: the host replays it once after a crash of the program.

	event        when                                    a reject                    when no earlier event of the job came here
	startup      the host or the hook's program starts   is logged                   JobList has the jobs that live: find again
	                                                                                 what is theirs, remove what is nobody's
	begin        on every host of the job, before        the job does not start;     it is the first
	             anything of it runs there               abort for hooks that took it
	prologue     on every host, after all took begin     the job is requeued         do begin's part or accept
	launch       before each program that MoM starts     that program is not         do begin's part or reject
	                                                     started; if it was the
	                                                     job's first, job is deleted
	attach       a process that MoM did not start is     the caller is told, the     reject: the job is not known here
	             to be taken in                          process stays outside
	resize       the resources of a running job changed  the job is requeued         do begin's part with the new resources
	postsuspend  the job's processes were stopped        is logged                   accept
	preresume    before a suspended job goes on          it stays suspended          accept
	preterm      before the job is killed on request     the job is not killed       accept
	abort        the start failed after begin            is logged                   remove what there is, accept if nothing
	epilogue     the leading program has ended           is logged                   measure what there is, accept if nothing
	end          last of all, on every host              is logged                   remove what there is, accept if nothing
	periodic     every freq seconds after the call       is logged                   JobList has the jobs that live
	             before

The first reject of begin, prologue, launch, attach, resize, preresume and preterm ends the chain of hooks; hooks of higher
order are then not asked. All other events reach every hook, and errors are joined (Event.StopsAtReject). A hook must
therefore bear an end without a begin: it may have been registered, or a begin of another hook may have failed, in
between. What it has to remember it returns as Outcome.State and gets back as Job.State, also after a restart of its
program, of hookhost or of the node; a hook keeps nothing on disk.

# Concurrency and time

A hook gets one event of a job at a time and events of several jobs at once; exechost_periodic and exechost_startup may
come beside the events of a job. The alarm of the hook is the deadline of ctx. A hook that is still busy then is killed
and its job rejected, so whatever waits has to watch ctx. Request and Outcome belong to the call: keep copies.

Time of day comes to a hook by Outcome.CallAgain, not by timers of its own, which die with the program.

# What hookhost makes of several outcomes

The hooks run in ascending order. Later hooks see what earlier ones changed of progname, argv and env.

	reject, message, job_action     of the first hook that rejects; with job_action "" PBS's rule for the event
	progname, argv, join            one hook may set it
	set_env, unset_env              one hook per variable
	resources_used                  one hook per resource
	usage                           one hook per field
	diag, job_stderr, notes         of all hooks, in order
	state, call_again               each hook's own

"One hook may" means: two hooks that set it to different values are an error that names both, and the event counts as
rejected. An outcome beside an error holds what the hook found out before it failed: usage, resources_used, diag, notes
and state of it are used, the rest is not.

# Errors

A plain reject (Outcome.Reject) says that the job may not; an error says that the hook could not, and its Kind who has to act.
fail_action answers to errors and alarms, never to a plain reject. A panic is an error of KindInternal.

# Numbers and units

Resource values stay as PBS writes them ("64mb", "00:10:00"), in Resources. Everywhere else numbers are plain: bytes, with
1 kb = 1024 bytes; seconds, where the key ends in _seconds and for job_kill_delay; nanoseconds for call_again, a
time.Duration in Go. Process start times are clock ticks since boot, as in /proc. A counter that nobody measured is absent, never 0.
User and group ids are -1 when the event did not say.
*/
package hostapi
