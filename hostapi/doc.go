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

What each event promises and asks. All must be idempotent: the host replays an event once after a crash of the program.

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
	resize       the resources of a running job changed: the job is requeued         do begin's part with the new resources
	             all of it is taken or nothing
	postsuspend  the job's processes were stopped; its   is logged; the job is       accept
	             place may go to others                  suspended all the same
	preresume    before a suspended job goes on          it stays suspended          accept
	preterm      before the job is killed on request     the job is not killed       accept
	abort        the start failed after begin            is logged                   remove what there is, accept if nothing
	epilogue     the leading program has ended           is logged                   measure what there is, accept if nothing
	end          last of all, on every host              is logged                   remove what there is, accept if nothing
	periodic     every freq seconds after the call       is logged                   JobList has the jobs that live;
	             before; when a time has come that           if Partial, some of them
	             a hook has asked for

The first reject or error at begin, prologue, launch, attach, resize, preresume or preterm ends the chain of hooks;
those of higher order are not asked. All other events reach every hook, and what they say is joined
(Event.StopsAtReject). When the start of a job fails, abort goes, in reverse order, to the hooks that accepted begin and
to one that crashed, overran its alarm or failed internally in it; a hook that rejects, or answers with an error of kind
job, busy or node, leaves nothing behind by itself. When a hook refuses preresume, those that accepted it get
postsuspend again, in reverse order. A hook must bear an end without a begin: it may have been registered in between.
What it has to remember it returns as Outcome.State and gets back as Job.State, also after a restart of its program or
of hookhost; of jobs a hook keeps nothing on disk. For what it has to know of the node there is the directory
Setup.Host["state_dir"].

What the cgroup hook does at the events of a job that runs:

	resize       gives the job its new cpus, NUMA nodes and limits. It keeps of its cpus what it can. Less memory than it uses
	             and cannot give back is refused (busy), as is what others hold; then nothing has changed. From ncpus=0 to
	             more, or back, is not possible on cgroup v1
	postsuspend  freezes every process in the job's cgroup, whatever session it is in, and marks the cgroup: execjob_begin gives
	             the job's cpus and memory to others when there is no other place. Its pages stay where they are: without
	             swap, memory can run out. What does not stop within 3 seconds is named in the log and stops when it can
	preresume    thaws it; the job has its place again. Two jobs may share cpus then, which is the scheduler's affair
	preterm      thaws a suspended job, so that it takes its SIGTERM
	launch       of a suspended job: refused (busy) when the caller starts the program; whoever does is frozen with it
	attach       to a suspended job: the process stops as it enters

A suspended job's wall time stands still, and it can end or be killed like any other. A hook that dies within one of these
events finishes it when it is called again, and otherwise exechost_startup makes the kernel agree with the mark.

# Concurrency and time

A hook gets one event of a job at a time and events of several jobs at once; exechost_periodic and exechost_startup may
come beside the events of a job. The alarm of the hook is the deadline of ctx. A hook that is still busy then is killed
and its job rejected, so whatever waits has to watch ctx. Request and Outcome belong to the call: keep copies.

Time comes to a hook by Outcome.CallAgain and Outcome.CallAtElapsed, not by timers of its own, which die with the program. The first
is a time from now, the second a time that the job has run (Job.Elapsed): nothing comes of it before the first launch nor while the
job is suspended, and a suspension moves it. Neither minds who sets the wall clock, and the host keeps both over its restarts. A hook
has one time for each job: what it asks for last counts.

The call is an exechost_periodic with Request.Partial: one for all jobs of the hook that are due together, in JobList. What comes due
while the hook is at such a call is in the next one; behind a call that takes longer than a second another may come at the same time,
with other jobs. A job that an event is at waits for its end. Five things to know:

  - A call may come before its time: the host need not have written down that a hook put it off. And it may come twice, or late,
    after a crash. So look at Job.Elapsed or the clock, not at why you are called, and ask again when it is too early.
  - An error concerns all jobs of the call, and all are called for again 30 seconds later; what is told in Jobs beside it counts.
    A hook that fails with one job of many says so in a note or its log, and asks for that job to be called again.
  - The host has one report of an error, and the hook's fail_action does not act: no event of PBS is there to carry it.
  - To ask, when called, for an elapsed time no later than the one that has come is a mistake: that call is made 30 seconds later.
  - To take a time back, ask for one that is far away, or answer the call by asking for none. When the job ends all are dropped.

# The environment of attached processes

An attach comes for each process that somebody brings into a job, hundreds in a second where mpirun
starts them by ssh. What follows from the job alone is therefore told once: Outcome.AttachEnv at
begin and at resize. The host writes it into the job's record and gives it to each attach. A resize
that is rejected changes nothing. A hook implements execjob_attach only for what it does to the one
process.

A record that was lost comes back without these variables. A hook that sets them tells them in
JobUpdate.AttachEnv too, at exechost_startup and exechost_periodic.

# Between events

A hook that learns something while no event calls it, as that the kernel killed a process of the job, says so with Setup.Tell. The host
takes the update over at once: it is in `hookhost jobs` and in the report, and its job_stderr lines are on the job's standard
error, within milliseconds under hookhost run; pbs_mom has no call for that and gets them with the outcome of epilogue. A notice
waits for no event and holds up none. Three things to know:

  - The host may die before it has noted what it was told, and the hook cannot see that. So tell totals and tell them again, at
    exechost_startup and at epilogue: each text reaches the job's standard error once. What happened twice needs two texts, and
    a text, once told, has to stay as it was.
  - A hook can tell 256 things at once and then 20 a second. What comes faster waits in its program, up to 4096 notices or
    8 MiB; what does not fit is dropped, and so is what is about a job that does not live here or is in its last events. All of
    that is logged.
  - State in a notice counts only while no event of the job is under way. Keep it in outcomes where you can.

A hook that runs as the job's owner lives for one event and cannot tell anything.

# What hookhost makes of several outcomes

The hooks run in ascending order. Later hooks see what earlier ones changed of progname, argv and env.

	reject, message, job_action     of the first hook that rejects; at events that reach every hook, all their messages
	progname, argv                  of the last hook that sets it, so wrappers go around wrappers
	join                            one hook may set it
	set_env, unset_env              one hook per variable
	attach_env                      one hook per variable, with set_env of attach
	resources_used                  one hook per resource
	usage                           one hook per field
	diag, job_stderr, notes         of all hooks, in order
	jobs                            the same for each job by itself
	vnodes                          one hook per vnode and resource, and per vnode one for its sharing, state and comment
	walltime_limit                  one hook per job
	state, call_again,              each hook's own
	call_at_elapsed

"One hook" means: two that set it to different values are an error that names both. The host refuses an outcome with a key
that the event does not take (Outcome.Check). An outcome beside an error holds what the hook found out before it failed: usage,
resources_used, diag, job_stderr, notes, jobs, vnodes and state of it are used, the rest is not.

# Errors

A plain reject (Outcome.Reject) says that the job may not, and job_action what becomes of it; when that is "", PBS's own rule for
the event holds. An error says that the hook could not, and its Kind who has to act. A panic is an error of KindInternal. At
begin, prologue and launch the kind also decides about the job:

	kind        who acts                     the job          fail_action
	job         the user                     is deleted       -
	busy        nobody: time heals it        is requeued      -
	node        the administrator            is requeued      acts
	timeout     set by the host: the alarm   is requeued      acts
	internal    the hook's author            is held          acts

# Numbers and units

Resource values stay as PBS writes them ("64mb", "00:10:00"), in Resources. Everywhere else numbers are plain: bytes, with
1 kb = 1024 bytes; seconds, where the key ends in _seconds and for job_kill_delay; nanoseconds for call_again,
call_at_elapsed, walltime_limit and elapsed, which are a time.Duration in Go. Process start times are clock ticks since boot, as in /proc. A counter that nobody measured is absent, never 0.
User and group ids are -1 when the event did not say.
*/
package hostapi
