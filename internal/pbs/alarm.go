package pbs

import "time"

// Alarm returns after how long MoM kills a hook with that attribute: 30 seconds, PBS's default, for
// none.
func Alarm(alarm time.Duration) time.Duration {
	if alarm <= 0 {
		return 30 * time.Second
	}
	return alarm
}

// AnswerWithin returns how long an event may take whose hook MoM kills after alarm. The rest is for
// the hook's own work.
func AnswerWithin(alarm time.Duration) time.Duration {
	alarm = Alarm(alarm)
	return max(alarm-max(time.Second, alarm/10), alarm/2)
}
