// SPDX-License-Identifier: MIT
/* Doctor: starts the clients of the self-test, here or by ssh, and asks them. */
#include "doctor_peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/text.h"

/* Lines of a shell on the other machine, which may greet its user first. */
#define NOISE_MOST 200
/* Between two looks at whether the user has ended it. */
#define LISTEN_MS 200

/* ---- where ---- */

int peer_parse(const char *where, struct doctor_peer *ret_peer)
{
	const char *end = strchr(where, ':'), *slash = strchr(where, '/'), *host = where;

	*ret_peer = (struct doctor_peer){ .where = where, .folder = where, .fd = -1 };
	if (*where == '[' && strstr(where, "]:")) {
		host = where + 1;
		end = strstr(where, "]:");
	}
	if (!end || (slash && slash < end))
		return STATUS_DONE;
	/* ssh takes a name with a dash for an option. */
	if (end == host || *host == '-')
		return fail(STATUS_USAGE, EINVAL,
			    "HOST:DIR, as ssh knows HOST; a folder with a colon in it: ./DIR",
			    "doctor: '%s' names no host", where);
	ret_peer->folder = end + (*end == ']' ? 2 : 1);
	if (!*ret_peer->folder)
		return fail(STATUS_USAGE, EINVAL, "name its folder on HOST: HOST:DIR",
			    "doctor: '%s' names no folder", where);
	ret_peer->host = text_format("%.*s", (int)(end - host), host);
	return STATUS_DONE;
}

/* ---- started ---- */

static const char *ssh(void)
{
	const char *other = getenv("HETMAP_SSH");

	return other && *other ? other : "ssh";
}

/* For the shell on the other side: 'it'"'"'s'. */
static char *quote(const char *text)
{
	char *quoted = calloc(strlen(text) + 1, 5), *to = quoted;

	if (!quoted)
		abort();
	for (; *text; text++)
		to += *text == '\'' ? sprintf(to, "'\\''") : sprintf(to, "%c", *text);
	return quoted;
}

static void become_ssh(const struct doctor_peer *peer) __attribute__((noreturn));
static void become_ssh(const struct doctor_peer *peer)
{
	char *folder = quote(peer->folder);
	char *remote = text_format("hetmap doctor --peer-serve '%s'", folder);
	char *argv[] = { (char *)ssh(),       "-o",       "BatchMode=yes", "-o",
			 "ConnectTimeout=20", peer->host, remote,          NULL };

	execvp(argv[0], argv);
	dprintf(STDOUT_FILENO, "not executed %d\n", errno);
	_exit(STATUS_NOT_FOUND);
}

static void become(const struct doctor_peer *peer, int fd) __attribute__((noreturn));
static void become(const struct doctor_peer *peer, int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signals_restore();
	if (!peer->host)
		_exit(peer_serve(peer->folder, fd, fd));
	if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		_exit(STATUS_OWN);
	become_ssh(peer);
}

/* ---- heard ---- */

/* Is there something to hear? False: the user has ended it, which no call begun again sees. */
static bool listen_for(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	while (!signals_pending())
		if (poll(&wait, 1, LISTEN_MS) > 0)
			return true;
	return false;
}

/* The next line is in @peer->line. False: it ended, or the user did. */
static bool hear(struct doctor_peer *peer)
{
	char *end;
	ssize_t n;

	while (!(end = memchr(peer->input, '\n', peer->n))) {
		/* Longer than any answer of ours: its begin identifies it. */
		if (peer->n == sizeof(peer->input))
			peer->n--;
		if (!listen_for(peer->fd))
			return false;
		n = recv(peer->fd, peer->input + peer->n, sizeof(peer->input) - peer->n, 0);
		if (n <= 0)
			return false;
		peer->n += (size_t)n;
	}
	*end = '\0';
	strcpy(peer->line, peer->input);
	peer->n -= (size_t)(end + 1 - peer->input);
	memmove(peer->input, end + 1, peer->n);
	return true;
}

static int fail_executing(int error)
{
	return fail(STATUS_ENVIRONMENT, error,
		    "install ssh (Debian: apt-get install openssh-client), or set HETMAP_SSH "
		    "to a command to run instead",
		    "doctor: '%s' can't be run: %s", ssh(), strerror(error));
}

static int fail_version(const struct doctor_peer *peer, const char *own, const char *theirs)
{
	return fail(STATUS_ENVIRONMENT, EPROTO, "install the same version on both machines",
		    "doctor: this is hetmap %s, and %s has hetmap %s: their tests may differ",
		    own, peer->host ? peer->host : "this machine", theirs);
}

static int hear_greeting(struct doctor_peer *peer)
{
	uint32_t number = hm_version();
	char version[64], *own;
	int lines, error, status = STATUS_DONE;

	for (lines = 0; lines < NOISE_MOST; lines++) {
		if (!hear(peer))
			return peer_gone(peer);
		if (sscanf(peer->line, "not executed %d", &error) == 1) /* NOLINT: our own */
			return fail_executing(error);
		if (sscanf(peer->line, "hetmap-peer %63s %63s", version, peer->boot) != 2)
			continue;
		own = text_format("%u.%u.%u", number >> 16, number >> 8 & 0xff, number & 0xff);
		if (strcmp(own, version) != 0)
			status = fail_version(peer, own, version);
		free(own);
		return status;
	}
	return fail(STATUS_ENVIRONMENT, EPROTO,
		    "let its shell print nothing without a terminal",
		    "doctor: %s printed %d lines, none of them hetmap's", peer->where,
		    NOISE_MOST);
}

int peer_start(struct doctor_peer *peer)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return fail(STATUS_ENVIRONMENT, errno, NULL, "doctor: socketpair: %s",
			    strerror(errno));
	fflush(NULL);
	peer->pid = fork();
	if (!peer->pid) {
		close(fds[0]);
		become(peer, fds[1]);
	}
	close(fds[1]);
	peer->fd = fds[0];
	if (peer->pid < 0) {
		peer->pid = 0;
		return fail(STATUS_ENVIRONMENT, errno, NULL, "doctor: fork: %s",
			    strerror(errno));
	}
	return hear_greeting(peer);
}

/* ---- asked ---- */

int peer_ask(struct doctor_peer *peer, const char *format, ...)
{
	char request[PEER_LINE];
	int n, error = 0, text = 0;
	va_list args;

	va_start(args, format);
	n = vsnprintf(request, sizeof(request) - 1, format, args);
	va_end(args);
	request[n++] = '\n';
	if (send(peer->fd, request, (size_t)n, MSG_NOSIGNAL) != n || !hear(peer))
		return -EPIPE;
	if (!strncmp(peer->line, "ok", 2)) {
		memmove(peer->line, peer->line + 2, strlen(peer->line + 2) + 1);
		return 0;
	}
	peer->odd = sscanf(peer->line, "error %d %n", &error, &text) != 1 ||
		    error <= 0; /* NOLINT */
	if (peer->odd)
		return -EPIPE;
	memmove(peer->line, peer->line + text, strlen(peer->line + text) + 1);
	return -error;
}

int peer_look(struct doctor_peer *peer, size_t at, unsigned char *ret_value)
{
	unsigned int value;
	int r = peer_ask(peer, "look %zu", at);

	if (r)
		return r;
	peer->odd = sscanf(peer->line, "%u", &value) != 1; /* NOLINT: it is compared, no more */
	if (peer->odd)
		return -EPIPE;
	*ret_value = (unsigned char)value;
	return 0;
}

/* ---- ended ---- */

/* Its exit status, or -signal. */
static int reap(struct doctor_peer *peer)
{
	/*
	 * The peer may wait for a file system that does not answer: the user must not wait for
	 * that.
	 */
	int flags = signals_pending() ? WNOHANG : 0, status = 0;

	if (peer->fd >= 0) {
		/* Other processes may have a copy of it. */
		shutdown(peer->fd, SHUT_RDWR);
		close(peer->fd);
		peer->fd = -1;
	}
	if (peer->pid && flags)
		kill(peer->pid, SIGTERM);
	while (peer->pid && waitpid(peer->pid, &status, flags) < 0 && errno == EINTR)
		;
	peer->pid = 0;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int peer_gone(struct doctor_peer *peer)
{
	bool greeted = *peer->boot;
	int status = reap(peer), told;
	char *remedy;

	if (signals_pending())
		return 128 + signals_pending();
	if (peer->odd)
		return fail(STATUS_ENVIRONMENT, EPROTO,
			    "set HETMAP_SSH to a command that prints nothing of its own",
			    "doctor: '%s' is no valid answer of %s", peer->line, peer->where);
	if (!peer->host || (greeted && status != 255))
		return fail(STATUS_ENVIRONMENT, EPIPE, NULL,
			    "doctor: the test's process of '%s' ended before the test did "
			    "(%s %d)",
			    peer->where, status < 0 ? "signal" : "status", abs(status));
	if (status == STATUS_NOT_FOUND)
		return fail(STATUS_ENVIRONMENT, ENOENT,
			    "install it there, in the PATH of the shell that ssh starts",
			    "doctor: %s has no 'hetmap' in its PATH", peer->host);
	if (status != 255)
		return fail(
			STATUS_ENVIRONMENT, EPROTO,
			"install this version there, too: 'hetmap version' tells it",
			"doctor: 'hetmap doctor --peer-serve' on %s ended with %s %d: it may "
			"be too old for that option",
			peer->host, status < 0 ? "signal" : "status", abs(status));
	remedy = text_format("this must work without a question: %s -o BatchMode=yes %s "
			     "hetmap version",
			     ssh(), peer->host);
	told = fail(STATUS_ENVIRONMENT, EHOSTUNREACH, remedy,
		    "doctor: %s can't be reached: ssh ended with status 255%s", peer->host,
		    greeted ? ", in the middle of the test" : "");
	free(remedy);
	return told;
}

void peer_end(struct doctor_peer *peer)
{
	reap(peer);
	free(peer->host);
	peer->host = NULL;
}
