/* SPDX-License-Identifier: MIT */
/* Is a file the one that was recorded? */
#ifndef HETMAP_SYMBOLS_FILE_H
#define HETMAP_SYMBOLS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "spaces_code.h"

enum symbols_file {
	SYMBOLS_FILE_SAME, /* as far as can be told */
	SYMBOLS_FILE_GONE, /* none is there, or none that can be read */
	SYMBOLS_FILE_OTHER,
};

/*
 * Compares @file as the recording has it; without a build ID, by the time of @path's last
 * write: not after @recorded_ns, the end of the recording; 0: not known.
 */
enum symbols_file symbols_file_look(const char *path, const struct code_file *file,
				    uint64_t recorded_ns);

#endif
