// SPDX-License-Identifier: MIT
/* Arrays: ranks fail together, and with the same text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cluster.h"

#define TEXT 900

int mpi_error(int code, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length = 0;

	if (code == MPI_SUCCESS)
		return 0;
	MPI_Error_string(code, text, &length);
	return hm_error_set(-EREMOTEIO, "%s failed: %s", what, text);
}

int agree(MPI_Comm comm, int r)
{
	struct {
		int failed; /* 0: none is below it */
		int rank;
	} mine, first;
	struct {
		int r;
		char text[TEXT];
	} failure;
	int rank, code;

	MPI_Comm_rank(comm, &rank);
	mine.failed = r ? 0 : 1;
	mine.rank = rank;
	code = MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, comm);
	if (code)
		return mpi_error(code, "MPI_Allreduce");
	if (first.failed)
		return 0;
	memset(&failure, 0, sizeof(failure));
	if (first.rank == rank) {
		failure.r = r;
		snprintf(failure.text, sizeof(failure.text), "%s", hm_errmsg());
	}
	code = MPI_Bcast(&failure, sizeof(failure), MPI_BYTE, first.rank, comm);
	if (code)
		return mpi_error(code, "MPI_Bcast");
	return hm_error_set(failure.r, "rank %d: %s", first.rank, failure.text);
}
