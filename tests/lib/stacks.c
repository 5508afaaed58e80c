// SPDX-License-Identifier: MIT
/*
 * A test that is out of time says where its threads and children are: each gets a
 * signal whose handler writes its stack, as addresses for addr2line(1). The signal is
 * one that the library's own threads do not block.
 */
#include "lib/stacks.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASK SIGILL
#define FRAMES_MAX 40
/* One after the other, so that stacks do not mix. */
#define PAUSE_US 50000

static void on_ask(int signal, siginfo_t *info, void *context)
{
	void *frames[FRAMES_MAX];

	(void)context;
	if (info->si_code == SI_TKILL)
		backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), STDERR_FILENO);
	else
		/* A bad instruction: it ends the process when it is met again. */
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

void stacks_prepare(void)
{
	struct sigaction action = {
		.sa_sigaction = on_ask,
		.sa_flags = SA_SIGINFO | SA_RESTART,
	};
	void *frame;

	backtrace(&frame, 1); /* loads what it needs, which a handler must not */
	sigfillset(&action.sa_mask);
	sigaction(ASK, &action, NULL);
}

/* The first line of /proc/@pid/task/@task/@file. */
static void print_line(pid_t pid, const char *task, const char *file)
{
	char path[320], line[128] = "";
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", pid, task, file);
	stream = fopen(path, "re");
	if (!stream)
		return;
	if (fgets(line, sizeof(line), stream))
		line[strcspn(line, "\n")] = '\0';
	fclose(stream);
	fprintf(stderr, " %s %s", file, line);
}

/* Children that a thread has forked: a thread that waits for a child is not the one that hangs. */
static void print_children(pid_t pid, const char *task)
{
	char path[320];
	FILE *stream;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, task);
	stream = fopen(path, "re");
	while (stream && fscanf(stream, "%d", &child) == 1)
		stacks_print(child);
	if (stream)
		fclose(stream);
}

void stacks_print(pid_t pid)
{
	char path[32];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		fprintf(stderr, "thread %s:", entry->d_name);
		print_line(pid, entry->d_name, "comm");
		print_line(pid, entry->d_name, "wchan");
		print_line(pid, entry->d_name, "syscall");
		fputc('\n', stderr);
		syscall(SYS_tgkill, pid, atoi(entry->d_name), ASK);
		usleep(PAUSE_US);
		print_children(pid, entry->d_name);
	}
	if (tasks)
		closedir(tasks);
}
