/* SPDX-License-Identifier: MIT */
/*
 * The clients of doctor's self-test: processes, each with a map of the test's file in a folder
 * of its own, which do as they are told. Here such a process is a child, on another machine
 * what ssh starts there: "hetmap doctor --peer-serve DIR". Both speak lines:
 *
 *     hetmap-peer VERSION BOOT     first, from the peer; BOOT is its kernel's boot_id
 *
 *     find NAME                    "ok DEVICE": st_dev of that file of the folder
 *     open NAME                    "ok": it is mapped, with HM_BUFFER_PUBLISH
 *     look AT                      "ok VALUE": the byte there, through the map
 *     publish AT VALUE             "ok": stored there, and hm_file_publish() of its page
 *     refresh AT                   "ok": hm_file_refresh() of that page
 *
 * or "error ERRNO SENTENCE" as an answer; the end of its input ends the peer.
 */
#ifndef HETMAP_DOCTOR_PEER_H
#define HETMAP_DOCTOR_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An answer of a peer, or a line before it: longer ones are cut. */
#define PEER_LINE 1024

/* The test's file: a name that nothing else has. */
#define PEER_FILE ".hetmap-doctor-"

struct doctor_peer {
	const char *where; /* as the user gave it */
	char *host;        /* NULL: this machine */
	const char *folder;
	char boot[64];
	int fd;    /* -1: not started */
	pid_t pid; /* 0 likewise */
	bool odd;  /* the last answer was none */
	size_t n;
	char input[PEER_LINE]; /* that is no whole line yet */
	char line[PEER_LINE];  /* the last answer, without its newline */
};

/*
 * Where a peer is: "DIR", or "HOST:DIR" if there is a colon and no slash before it, "[HOST]:DIR"
 * for a HOST with colons. STATUS_DONE, or a status, and the user was told.
 */
int peer_parse(const char *where, struct doctor_peer *ret_peer);

/* Starts it, and hears its greeting. As above. peer_end() also if that failed. */
int peer_start(struct doctor_peer *peer);
void peer_end(struct doctor_peer *peer);

/*
 * Sends a question, and waits for the answer. Returns 0 with the text behind "ok" in
 * @peer->line; the peer's own negative errno, with its sentence in @peer->line; or -EPIPE if
 * the peer ended or its answer makes no sense: peer_gone() explains that.
 */
int peer_ask(struct doctor_peer *peer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for "look AT". */
int peer_look(struct doctor_peer *peer, size_t at, unsigned char *ret_value);

/* Ends it, and tells the user why there is no answer; returns a status. */
int peer_gone(struct doctor_peer *peer);

/* The peer's side: answers until the end of @in. Returns an exit status. */
int peer_serve(const char *folder, int in, int out);

#endif
