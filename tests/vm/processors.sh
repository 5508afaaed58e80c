# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by what runs tests in a machine. Some make the kernel replace its own code, by
# tracepoints or perf's events, and QEMU 7.2 may let a second processor run what was
# replaced: the kernel panics ("Oops: int3"), or never gets an answer from it again. So
# they run while there is one.
replacing='test_hetsim_trace test_stat test_trace_points test_two_nodes'

# with_processors COMMAND TEST...: for those of the tests that need one alone, and the others
with_processors() {
	command=$1
	shift
	others='' alone=''
	for name in "$@"; do
		case " $replacing " in
		*" $name "*) alone="$alone $name" ;;
		*) others="$others $name" ;;
		esac
	done
	# shellcheck disable=SC2086 # lists of names
	[ -z "$others" ] || $command $others
	if [ -n "$alone" ]; then
		echo 0 >/sys/devices/system/cpu/cpu1/online
		# shellcheck disable=SC2086 # a list of names
		$command $alone
		echo 1 >/sys/devices/system/cpu/cpu1/online
	fi
}
