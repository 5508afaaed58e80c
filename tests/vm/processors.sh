# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by what runs tests in a machine. Programs have two processors, but where PROCESSORS
# is 1, and for these:
# - Some make the kernel replace its own code, by tracepoints or perf's events, and QEMU 7.2
#   may let a second processor run what was replaced: the kernel panics ("Oops: int3"), or
#   never gets an answer from it again.
replacing='test_hetsim_trace test_stat test_trace_points test_two_nodes'
# - Some are long, and do one thing after another: nothing meets that a second one would let
#   meet. Two emulated ones wait for each other, at each flush of a TLB, and so for the host,
#   where that runs two machines: test_conformance takes 27 s with one, 62 with two.
sequential='test_conformance test_undo test_recover_undo test_hetsim_command test_reader_cgroup
test_drm_nodes_data test_lifecycle test_drm_nodes_lifetimes test_drm_nodes test_drm_idle
test_share_owner test_share_hostile test_dmabuf test_limits test_errno test_load test_load_failures
test_hetsim_compat test_hetsim_buffers test_shadow test_recover test_seal'

# with_processors COMMAND TEST...: for those of the tests that need one alone, and the others
with_processors() {
	command=$1
	shift
	# shellcheck disable=SC2086,SC2116 # one blank between words
	single=$(echo $replacing $sequential)
	others='' alone=''
	for name in "$@"; do
		case "${PROCESSORS-2} $single " in
		'1 '* | *" $name "*) alone="$alone $name" ;;
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
