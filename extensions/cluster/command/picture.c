// SPDX-License-Identifier: MIT
/*
 * hetmap run particles: the picture. Each rank draws the columns of its layers into an array; rank
 * 0 brings them together in pages that a process of its own reads, which writes the files.
 */
#include <errno.h>
#include <hetmap/error.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "particles.h"

#define WIDTH 960
#define RADIUS 3
#define LOOK_NS 5000000
#define WRONG 1 /* exit status of the process that writes */

/* Shared by rank 0 and the process that writes the picture. */
struct page {
	_Atomic uint64_t drawn;   /* pictures that are complete; odd: one is being made */
	_Atomic uint64_t written; /* value of drawn that was written last */
	_Atomic int ended;
	uint64_t step;
	double energy;
	unsigned char columns[]; /* WIDTH * height * 3 */
};

struct picture {
	struct hm_array *array; /* a row is a column of the picture */
	struct page *page;      /* rank 0 */
	unsigned char *own;     /* columns of this rank */
	uint64_t page_bytes;
	uint32_t height;
	pid_t writer;
	bool is_live; /* a page for a browser, not a folder */
	const char *path;
};

/* ---- the process that writes: it makes no call of MPI and of the library ---- */

static void encode(FILE *file, const unsigned char *bytes, uint64_t n)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint64_t i;

	for (i = 0; i < n; i += 3) {
		uint32_t word = (uint32_t)bytes[i] << 16 |
				(i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
				(i + 2 < n ? bytes[i + 2] : 0);

		fputc(letters[word >> 18], file);
		fputc(letters[word >> 12 & 63], file);
		fputc(i + 1 < n ? letters[word >> 6 & 63] : '=', file);
		fputc(i + 2 < n ? letters[word & 63] : '=', file);
	}
}

/* Under another name first: a browser finds a whole page. */
static bool write_file(const struct picture *picture, uint64_t step, double energy,
		       const unsigned char *png, uint64_t bytes)
{
	char name[4200], temporary[4300];
	FILE *file;
	bool ok;

	if (picture->is_live)
		snprintf(name, sizeof(name), "%s", picture->path);
	else
		snprintf(name, sizeof(name), "%s/%08llu.png", picture->path,
			 (unsigned long long)step);
	snprintf(temporary, sizeof(temporary), "%s.new", name);
	file = fopen(temporary, "w");
	if (!file)
		return false;
	if (picture->is_live) {
		fprintf(file,
			"<!doctype html><meta charset=\"utf-8\"><title>particles, step %llu"
			"</title>\n<meta http-equiv=\"refresh\" content=\"1\">\n"
			"<style>body{background:#111;color:#ddd;font:16px sans-serif}</style>\n"
			"<p>step %llu, energy %.6f</p>\n<img alt=\"particles\" "
			"src=\"data:image/png;base64,",
			(unsigned long long)step, (unsigned long long)step, energy);
		encode(file, png, bytes);
		fputs("\">\n", file);
	} else {
		fwrite(png, 1, bytes, file);
	}
	ok = !ferror(file);
	ok = !fclose(file) && ok;
	return ok && !rename(temporary, name);
}

/* The columns of the array as rows. A picture that changed meanwhile is left for the next look. */
static bool write_picture(const struct picture *picture, unsigned char *rgb)
{
	struct page *page = picture->page;
	uint64_t drawn = atomic_load(&page->drawn), step, bytes, x, y;
	unsigned char *png;
	double energy;
	bool ok;

	if (drawn % 2 || drawn == atomic_load(&page->written))
		return true;
	step = page->step;
	energy = page->energy;
	for (x = 0; x < WIDTH; x++)
		for (y = 0; y < picture->height; y++)
			memcpy(rgb + 3 * (y * WIDTH + x),
			       page->columns + 3 * (x * picture->height + y), 3);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load(&page->drawn) != drawn)
		return true;
	png = png_make(rgb, WIDTH, picture->height, &bytes);
	ok = png && write_file(picture, step, energy, png, bytes);
	free(png);
	atomic_store(&page->written, drawn);
	return ok;
}

static void write_on(const struct picture *picture)
{
	struct timespec between = { .tv_nsec = LOOK_NS };
	unsigned char *rgb = malloc(3ull * WIDTH * picture->height);
	bool ok = rgb != NULL, ended = false;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	while (ok && !ended) {
		/* Before the look: what was drawn before the end is written. */
		ended = atomic_load(&picture->page->ended);
		ok = write_picture(picture, rgb);
		nanosleep(&between, NULL);
	}
	_exit(ok ? 0 : WRONG);
}

/* ---- ranks ---- */

static int start_writer(struct sim *sim, struct picture *picture)
{
	void *address;

	if (sim->rank)
		return 0;
	if (!picture->is_live && mkdir(picture->path, 0777) && errno != EEXIST)
		return hm_error_set(-errno, "%s: %s", picture->path, strerror(errno));
	picture->page_bytes = sizeof(*picture->page) + 3ull * WIDTH * picture->height;
	address = mmap(NULL, picture->page_bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (address == MAP_FAILED)
		return hm_error_set(-errno, "no memory for a picture: %s", strerror(errno));
	picture->page = address;
	picture->writer = fork();
	if (picture->writer < 0)
		return hm_error_set(-errno, "fork: %s", strerror(errno));
	if (!picture->writer)
		write_on(picture);
	return 0;
}

/* The error of the first rank that has one, on all ranks. */
static int agree_on(int r)
{
	int least = 0;

	MPI_Allreduce(&r, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (least && !r)
		hm_error_set(least, "another rank failed: %s", strerror(-least));
	return least;
}

int picture_begin(struct sim *sim, struct picture **ret_picture)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	struct picture *picture;
	const char *dot;
	int r = 0;

	*ret_picture = NULL;
	if (!sim->options->picture)
		return 0;
	picture = calloc(1, sizeof(*picture));
	if (!picture)
		return hm_error_set(-ENOMEM, "no memory for a picture");
	picture->path = sim->options->picture;
	dot = strrchr(picture->path, '.');
	picture->is_live = dot && !strcmp(dot, ".html");
	picture->height = (uint32_t)(WIDTH * sim->size[0] / sim->size[2]);
	picture->own = calloc(WIDTH, 3ull * picture->height);
	if (!picture->own)
		r = hm_error_set(-ENOMEM, "no memory for a picture");
	if (!r)
		r = start_writer(sim, picture);
	r = agree_on(r);
	if (!r) {
		struct hm_array_desc desc = { .struct_size = sizeof(desc),
					      .dimensions = 2,
					      .element = 3,
					      .shape = { WIDTH, picture->height },
					      .name = "picture" };

		r = hm_array_create(&comm, &desc, &picture->array);
	}
	*ret_picture = picture;
	return r;
}

static void dot_at(const struct picture *picture, int64_t first, int64_t columns, double x,
		   double z, const unsigned char colour[3])
{
	int64_t cx = (int64_t)z, cy = (int64_t)x, dx, dy;
	int i;

	for (dx = -RADIUS; dx <= RADIUS; dx++)
		for (dy = -RADIUS; dy <= RADIUS; dy++) {
			int64_t px = cx + dx - first, py = cy + dy;
			unsigned char *at;

			if (dx * dx + dy * dy > RADIUS * RADIUS || px < 0 || px >= columns ||
			    py < 0 || py >= picture->height)
				continue;
			at = picture->own + 3 * (px * picture->height + py);
			for (i = 0; i < 3; i++)
				if (colour[i] > at[i])
					at[i] = colour[i];
		}
}

/* Slow particles are blue, fast ones yellow. */
static void draw(struct sim *sim, struct picture *picture, int64_t first, int64_t columns)
{
	double scale = WIDTH / sim->size[2];
	uint64_t begin = (uint64_t)sim->old[sim->rank] * sim->layer_cells, at, i;
	uint64_t end = (uint64_t)sim->old[sim->rank + 1] * sim->layer_cells;
	int k;

	memset(picture->own, 16, 3ull * WIDTH * picture->height);
	for (at = begin; at < end; at++)
		for (i = 0; i < sim->cell[sim->now][at].n; i++) {
			const struct inner *inner = &sim->inner[sim->now][at];
			double v2 = 0, heat;
			unsigned char colour[3];

			for (k = 0; k < 3; k++)
				v2 += inner->v[k][i] * inner->v[k][i];
			heat = v2 / 6 < 1 ? v2 / 6 : 1;
			colour[0] = (unsigned char)(40 + 215 * heat);
			colour[1] = (unsigned char)(110 + 110 * heat);
			colour[2] = (unsigned char)(255 - 200 * heat);
			dot_at(picture, first, columns, sim->cell[sim->now][at].x[0][i] * scale,
			       sim->cell[sim->now][at].x[2][i] * scale, colour);
		}
	/* The border of the rank. */
	if (sim->rank)
		memset(picture->own, 90, 3ull * picture->height);
}

static int64_t column_of(const struct sim *sim, uint32_t layer)
{
	return (int64_t)WIDTH * layer / sim->cells[2];
}

int picture_add(struct picture *picture, struct sim *sim)
{
	struct hm_array_range range = { 0 }, all = { .count = { WIDTH, 0 } };
	struct timespec between = { .tv_nsec = LOOK_NS };
	struct page *page;
	double energy, kinetic;
	uint64_t n;
	int status, r;

	if (!picture)
		return 0;
	sim_energy(sim, &energy, &kinetic, &n);
	page = picture->page;
	range.start[0] = (uint64_t)column_of(sim, sim->old[sim->rank]);
	range.count[0] = (uint64_t)column_of(sim, sim->old[sim->rank + 1]) - range.start[0];
	range.count[1] = all.count[1] = picture->height;
	draw(sim, picture, (int64_t)range.start[0], (int64_t)range.count[0]);
	r = hm_array_put(picture->array, &range, picture->own, NULL);
	r = r ? r : hm_array_epoch(picture->array, 0);
	if (!r && page) {
		/* A folder gets each picture, a page the newest. */
		while (!picture->is_live && !r &&
		       atomic_load(&page->written) != atomic_load(&page->drawn)) {
			if (waitpid(picture->writer, &status, WNOHANG) > 0)
				r = hm_error_set(-EIO, "the process that writes %s has failed",
						 picture->path);
			nanosleep(&between, NULL);
		}
		if (r)
			picture->writer = 0;
		atomic_fetch_add(&page->drawn, 1);
		page->step = sim->step - 1;
		page->energy = energy;
		r = r ? r : hm_array_get(picture->array, &all, page->columns, NULL);
		r = r ? r : hm_array_wait(picture->array, HM_ARRAY_ALL);
		atomic_fetch_add(&page->drawn, 1);
	}
	/* No rank draws before all is read. */
	return agree_on(r);
}

int picture_end(struct picture *picture)
{
	int status = 0, r = 0;

	if (!picture)
		return 0;
	if (picture->writer > 0) {
		atomic_store(&picture->page->ended, 1);
		if (waitpid(picture->writer, &status, 0) < 0 || status)
			r = hm_error_set(-EIO, "the process that writes %s has failed",
					 picture->path);
	}
	r = agree_on(r);
	hm_array_unref(picture->array);
	if (picture->page)
		munmap(picture->page, picture->page_bytes);
	free(picture->own);
	free(picture);
	return r;
}
