/* SPDX-License-Identifier: MIT */
/*
 * hetmap run particles: Lennard-Jones molecular dynamics in 3D, in reduced units.
 *
 * The box is a grid of cells, at least as wide as the cut-off, in layers along z. A rank has layers
 * next to each other. A step:
 *
 *	drift    each particle of the old cells gets half a kick and moves, into the new cells, or
 *	         out to the rank that has its layer
 *	arrive   particles of other ranks come in
 *	halo     the layers below and above the own ones can be read
 *	forces   of all particles in the own layers; the other half of the kick
 *
 * How particles and halos go from rank to rank is a table of operations: exchange_array.c has them
 * by arrays, exchange_messages.c by MPI_Sendrecv. Both bring particles in the same order, so that
 * the sums of both are equal to the last bit.
 */
#ifndef HETMAP_PARTICLES_H
#define HETMAP_PARTICLES_H

#include <hetmap/array.h>
#include <hetmap/hetmap.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define CUTOFF 2.5
#define CELL_MOST 80 /* particles of a cell */

/* An element of the array of cells, which other ranks read. */
struct cell {
	uint64_t n;
	double x[3][CELL_MOST];
};

/* The part of a cell that only its owner needs. */
struct inner {
	double v[3][CELL_MOST];
	double f[3][CELL_MOST];
	uint64_t id[CELL_MOST];
};

/* On the way to another rank; of 64 bytes. In element 0 of a box only n counts. */
struct traveller {
	union {
		uint64_t id;
		uint64_t n;
	};
	double x[3];
	double v[3];
	uint64_t reserved;
};

enum { DOWN, UP }; /* to the rank that has the layers below, above */

struct sim;

struct exchange_ops {
	const char *name;
	const char *label;
	int (*begin)(struct sim *sim);
	void (*end)(struct sim *sim);
	/* The other ranks' particles come in: calls sim_insert() for those from below first. */
	int (*arrive)(struct sim *sim);
	/* Sets sim->below and sim->above. */
	int (*halo)(struct sim *sim);
	/* The layers have other owners from now on. */
	int (*move)(struct sim *sim, const uint32_t *old);
	/* [optional] One-sided messages of this rank so far, and nodes of the job. */
	int (*count)(struct sim *sim, uint64_t *ret_messages, uint32_t *ret_nodes);
};

extern const struct exchange_ops exchange_array, exchange_messages;

struct options {
	uint64_t atoms;
	uint64_t steps;
	uint64_t every; /* steps between two pictures and two looks at the energy */
	const char *exchange;
	const char *picture;
	bool uneven;
	bool balance;
};

struct sim {
	const struct options *options;
	const struct exchange_ops *exchange;
	int rank, ranks;
	uint64_t atoms;  /* of all ranks */
	double size[3];  /* of the box */
	double width[3]; /* of a cell */
	uint32_t cells[3];
	uint32_t layer_cells; /* cells of a layer */
	double dt;
	uint32_t *first; /* rank -> its first layer; one more */
	uint32_t *old;   /* the same of the cells that are filled: those of before a move */

	/* Two of each: old and new cells, by parity. All layers, of which the own ones are used. */
	struct cell *cell[2];
	struct inner *inner[2];
	unsigned int now;                 /* the new ones */
	const struct cell *below, *above; /* layers next to the own ones */

	struct traveller *out[2]; /* DOWN, UP: where travellers are put */
	uint64_t out_most;        /* elements, with that of n */
	bool arriving;            /* particles of other ranks come in */
	bool lost;                /* a cell or a box was full, or a particle too fast */

	double *sums;     /* three of each rank */
	double potential; /* of the own particles */
	uint64_t step;
	double compute, communicate; /* seconds of this rank */
	double recent;               /* CPU seconds of computing since the last look */
	uint64_t moved;              /* layers that got another rank */

	struct array_side *array;      /* exchange_array.c */
	struct message_side *messages; /* exchange_messages.c */
};

/* ---- setup.c ---- */

/* 0, or -EINVAL with a text for hm_errmsg(): too few particles for the ranks. */
int sim_begin(struct sim *sim, const struct options *options);
/* Fills the cells of the beginning; the exchange has begun. */
int sim_fill(struct sim *sim);
void sim_end(struct sim *sim);

/* ---- step.c ---- */

/* Puts a particle into its new cell, which is in an own layer, or else to travel. */
void sim_insert(struct sim *sim, uint64_t id, const double x[3], const double v[3]);
int sim_step(struct sim *sim);
/* Collective: sums over all ranks. */
void sim_energy(struct sim *sim, double *ret_total, double *ret_kinetic, uint64_t *ret_n);
/* -EIO with a text on all ranks if a particle was lost on one. Collective. */
int sim_check(struct sim *sim);
double seconds(void);

/* ---- forces.c ---- */

/* Forces on the particles of @cell by those of @other, shifted by @shift. Twice the potential. */
double forces_add(const struct cell *cell, struct inner *inner, const struct cell *other,
		  const double shift[3]);

/* ---- balance.c ---- */

/* Moves layers between neighbours if times differ by more than 10%. Collective. */
int balance(struct sim *sim);

/* ---- picture.c ---- */

struct picture;
/* NULL in *@ret_picture where there is none to make. Collective. */
int picture_begin(struct sim *sim, struct picture **ret_picture);
/* This step's picture. Collective. */
int picture_add(struct picture *picture, struct sim *sim);
/* Waits for the process that writes. Collective. */
int picture_end(struct picture *picture);

/* ---- png.c ---- */

/* A PNG of 8 bits a channel, RGB, without compression; free() it. NULL: no memory. */
unsigned char *png_make(const unsigned char *rgb, uint32_t width, uint32_t height,
			uint64_t *ret_bytes);

#endif
