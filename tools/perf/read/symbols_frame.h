/* SPDX-License-Identifier: MIT */
/* Where a function has its caller's address, by the tables that its file has for unwinding. */
#ifndef HETMAP_SYMBOLS_FRAME_H
#define HETMAP_SYMBOLS_FRAME_H

#include <elfutils/libdwfl.h>

enum symbols_frame {
	SYMBOLS_FRAME_UNKNOWN, /* the file does not tell */
	SYMBOLS_FRAME_POINTER, /* behind the frame pointer: a call chain has it */
	SYMBOLS_FRAME_TOP,  /* at the top of the stack: a call chain begins with the next one */
	SYMBOLS_FRAME_DEEP, /* deeper in the stack: what a call chain has is not it, either */
};

/* At an instruction of @module, of x86-64. */
enum symbols_frame symbols_frame(Dwfl_Module *module, GElf_Addr address);

#endif
