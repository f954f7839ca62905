// Package openpbs speaks what pbs_mom of OpenPBS speaks with its hooks. The package reads the file
// that MoM writes for a hook (IN). The hook's changes are verbs that the shim carries out, or the
// text of the file that MoM reads back (OUT). The package also reads MoM's log lines about a job's
// hosts.
//
// The package follows src/resmom/mom_hook_func.c, src/tools/pbs_python.c and
// src/lib/Libattr/attr_func.c of OpenPBS. Users have a part in the text that comes in, so every
// reader is bounded and doubts. The package is pure, but for ReadTotals: no file, no clock, no
// state.
package openpbs
