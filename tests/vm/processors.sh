# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by what runs tests in a machine. Two emulated processors that wait for each other
# (each flush of a TLB is such a wait) wait for the host, too, where it runs more than one
# machine: all takes two and a half times as long. So those programs have two whose threads
# or processes meet in the module or the library; the others are one thread and the engine's.
# Some of these make the kernel replace its own code, by tracepoints or perf's events, and
# QEMU 7.2 may let a second processor run what was replaced: the kernel panics ("Oops:
# int3"), or never gets an answer from it again.
concurrent='test_races test_lost_threads test_retire test_soft_stress test_share_kill
	test_recover test_recover_told test_shadow test_fence test_fence_foreign test_engine_maps
	test_drm_idle test_load_window test_sim_window test_sim_lost test_guard
	test_hetsim_engine test_hetsim_submit test_hetsim_fences test_hetsim_hostile
	test_hetsim_isolation test_hetsim_move test_hetsim_neighbours test_hetsim_unplug'

# with_processors COMMAND TEST...: for those of the tests that want two, and the others
with_processors() {
	command=$1
	shift
	two='' one=''
	for name in "$@"; do
		case " $concurrent " in
		*[[:space:]]"$name"[[:space:]]*) two="$two $name" ;;
		*) one="$one $name" ;;
		esac
	done
	# shellcheck disable=SC2086 # lists of words
	[ -z "$two" ] || $command $two
	if [ -n "$one" ]; then
		echo 0 >/sys/devices/system/cpu/cpu1/online
		# shellcheck disable=SC2086 # lists of words
		$command $one
		echo 1 >/sys/devices/system/cpu/cpu1/online
	fi
}
