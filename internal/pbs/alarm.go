package pbs

import "time"

// Alarm returns the time after which MoM kills a hook with that attribute. Without one it is PBS's
// default, 30 seconds.
func Alarm(alarm time.Duration) time.Duration {
	if alarm <= 0 {
		return 30 * time.Second
	}
	return alarm
}

// AnswerWithin returns how long an event may take if MoM kills its hook after alarm. The rest is
// for the hook's own work.
func AnswerWithin(alarm time.Duration) time.Duration {
	alarm = Alarm(alarm)
	return max(alarm-max(time.Second, alarm/10), alarm/2)
}
