// SPDX-License-Identifier: MIT
/*
 * Each rank fills its slice of one file of float32, and rank 0 prints: a plain mmap() of a shared
 * file gives rank 0 zeros where the ranks are on several machines.
 *
 *	mpirun -n 4 slices /shared/slices.f32
 *
 * A slice has 4,000,000 bytes, so that two of them share a part of 2 MiB, which a network file
 * system writes back as a whole. The array gives each such part to one rank, and what other ranks
 * have for it is sent there. The file stays a plain array, which any program reads.
 */
#include <err.h>
#include <fcntl.h>
#include <hetmap/array.h>
#include <hetmap/hetmap.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLICE 1000000
#define PART (2 << 20)

static float value(uint64_t i)
{
	return (float)(i % 16000000) * 0.5f;
}

/* Reads the file as any program would. Returns the number of wrong elements. */
static uint64_t look(const char *path, uint64_t n)
{
	float *found = malloc(n * sizeof(*found));
	int fd = open(path, O_RDONLY);
	uint64_t i, wrong = 0, bytes = 0;
	ssize_t got = 1;

	if (!found || fd < 0)
		err(1, "%s", path);
	while (got > 0 && bytes < n * sizeof(*found)) {
		got = read(fd, (char *)found + bytes, n * sizeof(*found) - bytes);
		bytes += got > 0 ? (uint64_t)got : 0;
	}
	if (bytes < n * sizeof(*found))
		errx(1, "%s ends after %llu bytes", path, (unsigned long long)bytes);
	for (i = 0; i < n; i++)
		wrong += found[i] != value(i);
	for (i = 0; i < n; i += SLICE)
		printf("slice %2llu: %10.1f ... %10.1f\n", (unsigned long long)(i / SLICE),
		       found[i], found[i + SLICE - 1]);
	free(found);
	close(fd);
	return wrong;
}

int main(int argc, char **argv)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hm_array *array;
	float *slice = malloc(SLICE * sizeof(*slice));
	uint64_t i, wrong = 0;
	int rank, ranks, level;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	if (argc != 2 || !slice)
		errx(2, "mpirun -n 4 slices FILE");

	struct hm_array_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_ARRAY_NEW_FILE,
		.dimensions = 1,
		.element = sizeof(float),
		.shape = { (uint64_t)ranks * SLICE },
		.chunk = PART / sizeof(float),
		.path = argv[1],
	};
	struct hm_array_range mine = { .start = { (uint64_t)rank * SLICE },
				       .count = { SLICE } };

	for (i = 0; i < SLICE; i++)
		slice[i] = value(mine.start[0] + i);
	if (hm_array_create(&comm, &desc, &array) || hm_array_put(array, &mine, slice, NULL) ||
	    hm_array_epoch(array, HM_ARRAY_PUBLISH))
		errx(1, "%s", hm_errmsg());
	hm_array_unref(array);
	free(slice);

	if (!rank) {
		wrong = look(argv[1], desc.shape[0]);
		printf("%llu elements, %llu wrong\n", (unsigned long long)desc.shape[0],
		       (unsigned long long)wrong);
	}
	MPI_Finalize();
	return wrong != 0;
}
