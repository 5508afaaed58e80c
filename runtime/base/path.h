/* SPDX-License-Identifier: MIT */
/* Texts for paths that can't be opened. */
#ifndef HETMAP_PATH_H
#define HETMAP_PATH_H

/*
 * Sets the text for @path, which could not be opened with @r: the error's name or, if the path is a
 * link that leads nowhere, the missing file. Returns @r. The caller puts the path before the text.
 */
int path_explain_open(int r, const char *path);

#endif
