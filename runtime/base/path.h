/* SPDX-License-Identifier: MIT */
/* Paths that can't be opened, and why. */
#ifndef HETMAP_PATH_H
#define HETMAP_PATH_H

/*
 * Sets the text for @path, which could not be opened with @r: the error's name or, where the path
 * is a link that leads nowhere, what is missing. Returns @r. The caller puts the path before.
 */
int path_explain_open(int r, const char *path);

#endif
