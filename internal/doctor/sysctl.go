package doctor

import "strings"

// examineUnprotected reports what the kernel lets jobs do beyond their limits, and how to prevent
// it: "Not protected" in docs/security.md.
func (k *kernel) examineUnprotected() []Finding {
	off := func(name string) bool { return k.sysctl(name) == "0" }
	var findings []Finding
	// The sysctl exists since Linux 6.6. Users can poll since 5.11.
	if disabled := k.sysctl("kernel/io_uring_disabled"); k.since(5, 11) && disabled != "1" && disabled != "2" {
		findings = append(findings, degraded("io_uring",
			"a job's polling threads (SQPOLL) may run on cpus that are not the job's",
			"sysctl kernel.io_uring_disabled=2 (Linux 6.6)"))
	}
	if !off("user/max_user_namespaces") && !off("user/max_net_namespaces") && !off("kernel/unprivileged_userns_clone") {
		findings = append(findings, degraded("packet sockets",
			"in a user namespace a job can have rings (AF_PACKET) whose memory is not counted",
			"sysctl user.max_net_namespaces=0"))
	}
	if forced := k.sysctl("kernel/shm_rmid_forced"); forced != "" && forced != "1" && !k.cfg.Private.CleanIPC {
		findings = append(findings, degraded("System V IPC",
			"shared memory, semaphores and message queues of a job stay after its end",
			"set clean_ipc = true in [private]; or sysctl kernel.shm_rmid_forced=1, which removes "+
				"shared memory that nobody has attached"))
	}
	return findings
}

// sysctl returns the value of a file of /proc/sys, or "" if the kernel does not have it.
func (k *kernel) sysctl(name string) string {
	b, err := k.roots.Proc.ReadFile("sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
