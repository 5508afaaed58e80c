// SPDX-License-Identifier: MIT
/* Doctor: features of the running kernel, asked by trying. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/machine.h"
#include "common/text.h"
#include "config.h"
#include "doctor.h"

/* Bytes of a file for the self-test. */
#define TEMPORARY_BYTES (64 << 10)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0 /* Linux 5.17 with CONFIG_ANON_VMA_NAME */
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define CAP_PERFMON_NUMBER 38
#define CAP_SYS_ADMIN_NUMBER 21

void check_kernel(struct doctor *doctor)
{
	struct utsname name;
	char page[TEXT_MAX];

	if (uname(&name) < 0)
		return;
	doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s %s, %s, base pages of %s",
		      name.sysname, name.release, name.machine,
		      text_bytes((uint64_t)sysconf(_SC_PAGESIZE), page));
}

/* A page to try things on; NULL: none to be had. */
static void *scratch_page(void)
{
	void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

void check_populate(struct doctor *doctor)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = scratch_page();
	int error = 0;

	if (!page || madvise(page, size, MADV_POPULATE_WRITE) < 0)
		error = errno;
	if (page)
		munmap(page, size);
	if (error)
		doctor_report(doctor, DOCTOR_NOTE,
			      "prefetch touches every page instead, which is slower",
			      "Linux 5.14 or later has them",
			      "MADV_POPULATE_READ and _WRITE: not in this kernel (%s)",
			      strerror(error));
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "MADV_POPULATE_READ and _WRITE: there");
}

void check_memfd(struct doctor *doctor)
{
	int noexec = memfd_create("hetmap-doctor",
				  MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	int fd = noexec >= 0 ? noexec :
			       memfd_create("hetmap-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error = errno;

	if (fd < 0) {
		doctor_report(doctor, DOCTOR_LIMIT, "no shared buffers on device host",
			      "a seccomp filter may forbid it; see also vm.memfd_noexec",
			      "memfd_create: %s", strerror(error));
		return;
	}
	if (noexec < 0)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "memfds: sealed, without MFD_NOEXEC_SEAL, which this kernel "
			      "has not (Linux 6.3)");
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "memfds: sealed, with MFD_NOEXEC_SEAL");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0)
		doctor_report(doctor, DOCTOR_LIMIT, "a buffer can't be shared read-only",
			      "Linux 5.1 or later has it", "F_SEAL_FUTURE_WRITE: %s",
			      strerror(errno));
	close(fd);
}

void check_anon_name(struct doctor *doctor)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = scratch_page();
	int error = 0;

	if (!page || prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, size, "hetmap-doctor") < 0)
		error = errno;
	if (page)
		munmap(page, size);
	if (error)
		doctor_report(doctor, DOCTOR_NOTE, NULL, NULL,
			      "names for private memory (PR_SET_VMA_ANON_NAME): not in "
			      "this kernel; /proc/PID/maps names shared buffers only");
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "names for private memory (PR_SET_VMA_ANON_NAME): there");
}

void check_userfaultfd(struct doctor *doctor)
{
	int full = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	int error = errno;
	int user = full < 0 ? (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY) :
			      -1;
	uint64_t sysctl = 0;
	bool known = !machine_read_number(doctor->root, "/proc/sys/vm/unprivileged_userfaultfd",
					  &sysctl);

	if (full >= 0)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "userfaultfd: faults of user code and of system calls");
	else if (user >= 0)
		doctor_report(doctor, DOCTOR_NOTE,
			      "demand paging does not serve system calls that read or "
			      "write such memory: they answer EFAULT",
			      "sudo sysctl vm.unprivileged_userfaultfd=1",
			      "userfaultfd: faults of user code only%s",
			      known && !sysctl ? " (vm.unprivileged_userfaultfd 0)" : "");
	else
		doctor_report(doctor, DOCTOR_NOTE, "no demand paging",
			      error == ENOSYS ? "a kernel with CONFIG_USERFAULTFD" :
						"a seccomp filter of the container may "
						"forbid it",
			      "userfaultfd: %s", strerror(error));
	if (full >= 0)
		close(full);
	if (user >= 0)
		close(user);
}

/* Of this program's build, which is the library's build, too. */
void check_probes(struct doctor *doctor)
{
#ifdef HAVE_SDT
	doctor_report(doctor, DOCTOR_OK, NULL, NULL,
		      "static probes: in this build, for bpftrace and perf");
#else
	doctor_report(doctor, DOCTOR_NOTE,
		      "bpftrace and perf see page faults, but no maps, brackets and launches",
		      "sudo apt-get install systemtap-sdt-dev, and build again",
		      "static probes: none, there was no <sys/sdt.h> to build with");
#endif
}

void check_perf_events(struct doctor *doctor)
{
	char level[32];

	if (machine_read(doctor->root, "/proc/sys/kernel/perf_event_paranoid", level,
			 sizeof(level))) {
		doctor_report(doctor, DOCTOR_NOTE,
			      "page faults can be counted, not traced to their code", NULL,
			      "perf events: not in this kernel");
	} else if (machine_capable(CAP_PERFMON_NUMBER) ||
		   machine_capable(CAP_SYS_ADMIN_NUMBER)) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "perf events: all, by capability (perf_event_paranoid %s)",
			      level);
	} else if (atoi(level) > 2) {
		doctor_report(doctor, DOCTOR_NOTE,
			      "page faults can be counted, not traced to their code",
			      "sudo sysctl kernel.perf_event_paranoid=1",
			      "perf events: none without CAP_PERFMON "
			      "(perf_event_paranoid %s)",
			      level);
	} else {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "perf events: of your own processes%s "
			      "(perf_event_paranoid %s)",
			      atoi(level) > 1 ? ", without the kernel's side" : "", level);
	}
}

/* 0: @folder takes files, one without a name where *@ret_nameless. A positive errno: none. */
static int try_temporary_file(const char *folder, bool *ret_nameless)
{
	char *name = text_format("%s/hetmap-doctor-XXXXXX", folder);
	int fd, error;

	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	*ret_nameless = fd >= 0;
	if (fd < 0) {
		fd = mkostemp(name, O_CLOEXEC);
		if (fd >= 0)
			unlink(name);
	}
	error = fd < 0 ? errno : posix_fallocate(fd, 0, TEMPORARY_BYTES);
	if (fd >= 0)
		close(fd);
	free(name);
	return error;
}

/* The self-test of files needs a private file of the same kind. */
void check_temporary_files(struct doctor *doctor)
{
	const char *folder = getenv("TMPDIR");
	bool nameless;
	char *path;
	int error;

	if (!folder || *folder != '/')
		folder = "/var/tmp";
	path = machine_path(doctor->root, folder);
	error = try_temporary_file(path, &nameless);
	if (!error)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "temporary files: in %s, %s",
			      folder, nameless ? "without a name" : "by name");
	else
		doctor_report(
			doctor, DOCTOR_LIMIT,
			"the self-test that shows an accelerator to work in place on files "
			"can't run: they are copied",
			error == EFBIG ? "raise RLIMIT_FSIZE (ulimit -f)" :
			error == ENOSPC || error == EDQUOT ?
					 "set TMPDIR to a folder that has room" :
					 "set TMPDIR to a folder that can be written",
			"temporary files: none in %s (%s)", folder, strerror(error));
	free(path);
}
