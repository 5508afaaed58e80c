// SPDX-License-Identifier: MIT
/*
 * Where a function has its caller's address. The kernel makes call chains by frame pointers,
 * which the C library is built without: the frame pointer in its functions is that of their
 * caller, and the chain goes on with that one's caller.
 */
#include "symbols_frame.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

/* Numbers of registers in the tables [System V ABI, AMD64, figure 3.36]. */
#define FRAME_POINTER 6
#define STACK_POINTER 7
/* The address that a call returns to, right below the frame. */
#define ADDRESS_BYTES 8

/* The frame begins at a register's value and so much more: false, it is not as simple as that. */
static bool register_of(const Dwarf_Op *op, Dwarf_Word *ret_register, Dwarf_Word *ret_offset)
{
	if (op->atom == DW_OP_bregx) {
		*ret_register = op->number;
		*ret_offset = op->number2;
		return true;
	}
	if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31)
		return false;
	*ret_register = op->atom - DW_OP_breg0;
	*ret_offset = op->number;
	return true;
}

enum symbols_frame symbols_frame(Dwfl_Module *module, GElf_Addr address)
{
	enum symbols_frame found = SYMBOLS_FRAME_UNKNOWN;
	Dwarf_Word number, offset;
	Dwarf_Addr bias;
	Dwarf_CFI *tables = dwfl_module_eh_cfi(module, &bias);
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t n;

	if (!tables || dwarf_cfi_addrframe(tables, address - bias, &frame))
		return found;
	if (!dwarf_frame_cfa(frame, &ops, &n) && n == 1 && register_of(ops, &number, &offset)) {
		if (number == FRAME_POINTER)
			found = SYMBOLS_FRAME_POINTER;
		else if (number == STACK_POINTER)
			found = offset == ADDRESS_BYTES ? SYMBOLS_FRAME_TOP :
							  SYMBOLS_FRAME_DEEP;
	}
	free(frame);
	return found;
}
