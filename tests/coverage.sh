#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/coverage.sh [TEST...]: builds with gcov, runs the test programs (all of
# the library's, or the named ones), and fails when a line behind an undo label
# (err_...:) of the library was never executed. No line is excused.
set -u

cd "$(dirname -- "$0")/.." || exit 3
B=${B:-build}
suite=coverage
# shellcheck source=tests/lib.sh
. tests/lib.sh

make --no-print-directory B="$B" coverage >/dev/null || exit 1
folder=$B/coverage
find "$folder" -name '*.gcda' -delete
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

programs=$*
[ -n "$programs" ] || programs='
	test_undo test_conformance test_bad_input test_backend test_alloc test_view test_file
	test_limits test_registry test_rangemap test_threads test_retire test_retire_stress
	test_accel test_accel_undo test_engine test_engine_maps test_fence test_launch test_stub
	test_stub_device test_opencl_build test_sim_device test_sim_lost test_shadow test_recover
	test_recover_told test_recover_undo test_replaced test_restored test_interleaved
	test_lost_threads test_sim_sample test_sim_window test_soft test_soft_memory test_soft_undo
	test_soft_fences test_taken_away test_unheard test_arguments test_fence_foreign
	test_queue_wait test_share test_share_hostile test_share_owner test_share_names
	test_share_copy test_share_kill test_dmabuf test_drm test_drm_drivers test_drm_brackets
	test_drm_view test_drm_idle test_drm_conformance test_map_segment test_brackets test_guard
	test_guard_threads test_guard_callbacks test_handler test_repair test_repair_storage
	test_lock_budget test_protect test_seal test_published test_trace test_safetensors
	test_safetensors_model test_safetensors_write test_npy test_reader test_reader_files
	test_reader_undo test_tokens test_tokens_ahead test_tokens_batches test_tokens_failures
	test_load test_load_failures test_load_window test_ring test_network test_drm_names
	test_pool test_pool_threads test_pool_lost test_dax_played test_tiering test_frame
	test_frame_objects test_frame_work test_frame_lost'
# Not what would reach the same lines again, in minutes: random operations, devices that differ
# from others in numbers only; nor children that a signal ends, whose counts are lost.
left_out='registry/random_operations soft/fpga* soft/nic* repair/refused'
# shellcheck disable=SC2086 # a list of names
HETMAP_LEAVE_OUT="${HETMAP_LEAVE_OUT-} $left_out" B=$folder HETMAP_STAGES=built \
	tests/run $programs >"$work/log" 2>&1
sed 's,^built/,coverage/,; $d' "$work/log"
counts=$(tail -n 1 "$work/log" | counts_of)
# shellcheck disable=SC2086 # three numbers
add_counts ${counts:-0 1 0}

# gcov's lines are "count:number:text"; "#####" is a line that was never run.
# A label's block ends with the function's brace in the first column. Prints what
# was missed; fails when there is that, or no label at all.
undo_lines() {
	gcov --stdout --object-directory "$folder/$(dirname "$1")" "$1" 2>/dev/null |
		awk -v file="$1" '
		{ count = $0; sub(/:.*/, "", count) }
		{ line = $0; sub(/^[^:]*: */, "", line); sub(/:.*/, "", line) }
		{ text = $0; sub(/^[^:]*:[^:]*:/, "", text) }
		line == 0 && text ~ /^Source:/ { ours = text == "Source:" file }
		!ours { next }
		text ~ /^err_[a-z_]*:/ { inside = 1; labels++ }
		text ~ /^}/ { inside = 0 }
		inside && count ~ /#####/ && text !~ /^[a-z_]*:$/ {
			print file ":" line ":" text
			missed++
		}
		END { exit missed > 0 || labels == 0 }'
}

for source in $(find runtime -name "*.c" | sort); do
	grep -q '^err_[a-z_]*:' "$source" || continue
	name=${source#runtime/}
	name=undo_${name%.c}
	if undo_lines "$source" >"$work/missed"; then
		pass "$name"
	else
		fail "$name" "$(wc -l <"$work/missed") lines were never executed"
		sed 's/^/    /' "$work/missed"
	fi
done
finish
