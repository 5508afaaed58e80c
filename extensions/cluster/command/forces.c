// SPDX-License-Identifier: MIT
/*
 * hetmap run particles: forces between two cells.
 *
 * V(r) = 4 (r^-12 - r^-6), shifted so that potential and force are 0 at the cut-off: without a jump
 * the energy stays.
 */
#include <math.h>

#include "particles.h"

double forces_add(const struct cell *cell, struct inner *inner, const struct cell *other,
		  const double shift[3])
{
	const double cut2 = CUTOFF * CUTOFF;
	const double cut6 = 1 / (cut2 * cut2 * cut2);
	const double v_cut = 4 * (cut6 * cut6 - cut6);
	/* dV/dr at the cut-off. */
	const double d_cut = -24 * (2 * cut6 * cut6 - cut6) / CUTOFF;
	double potential = 0;
	uint64_t i, k;

	for (i = 0; i < cell->n; i++) {
		const double x = cell->x[0][i] - shift[0];
		const double y = cell->x[1][i] - shift[1];
		const double z = cell->x[2][i] - shift[2];
		double fx = 0, fy = 0, fz = 0, v = 0;

#pragma omp simd reduction(+ : fx, fy, fz, v)
		for (k = 0; k < other->n; k++) {
			double dx = x - other->x[0][k];
			double dy = y - other->x[1][k];
			double dz = z - other->x[2][k];
			double r2 = dx * dx + dy * dy + dz * dz;
			/* A particle is no neighbour of itself. */
			double near = r2 < cut2 && r2 > 0 ? 1 : 0;
			double safe = r2 > 0 ? r2 : 1;
			double r = sqrt(safe), i2 = 1 / safe, i6 = i2 * i2 * i2;
			double pull = near * (24 * (2 * i6 * i6 - i6) * i2 + d_cut / r);

			fx += pull * dx;
			fy += pull * dy;
			fz += pull * dz;
			v += near * (4 * (i6 * i6 - i6) - v_cut - (r - CUTOFF) * d_cut);
		}
		inner->f[0][i] += fx;
		inner->f[1][i] += fy;
		inner->f[2][i] += fz;
		potential += v;
	}
	return potential;
}
