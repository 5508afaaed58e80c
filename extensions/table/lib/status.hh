/* SPDX-License-Identifier: MIT */
/* Status: arrow::Status inside of the library, errno and hm_errmsg() at its doors. */
#ifndef HETMAP_TABLE_STATUS_HH
#define HETMAP_TABLE_STATUS_HH

#include <cerrno>
#include <cstdarg>
#include <exception>
#include <functional>
#include <new>
#include <string>

#include <arrow/result.h>
#include <arrow/status.h>

namespace hetmap
{

using arrow::Result;
using arrow::Status;

/* A failure with its negative errno, and a sentence. */
Status Fail(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* A failure of libhetmap: its errno, and the text of hm_errmsg(). */
Status FailOf(int r) __attribute__((cold));

/* The errno of a failure; of a status of libarrow the one that suits its code. */
int ErrnoOf(const Status &status);

/* The same failure, with "WHERE: " before its sentence. */
Status At(const std::string &where, const Status &status);

/* The sentence of a failure, on one line. */
std::string TextOf(const Status &status);

/* Tells of a success with less than was asked for (hm_warning()). */
void Warn(const std::string &text);

/*
 * The frame of each public function: forgets the old texts, and makes an errno and a text of what
 * @work returns. No exception gets out.
 */
int Door(const std::function<Status()> &work) noexcept;

/* What @work returns, a Status or a Result. An exception is a failure. */
template <typename F> auto Caught(const F &work) noexcept -> decltype(work())
{
	try {
		return work();
	} catch (const std::bad_alloc &) {
		return Status::OutOfMemory("not enough memory is available");
	} catch (const std::exception &e) {
		return Status::Invalid(e.what());
	}
}

/* The same for functions that touch no text. */
void Quietly(const std::function<void()> &work) noexcept;

} /* namespace hetmap */

/* Fails the calling function where @call, which gives an errno of libhetmap, does. */
#define RETURN_IF_REFUSED(call)                            \
	do {                                               \
		int refused_ = (call);                     \
		if (refused_)                              \
			return ::hetmap::FailOf(refused_); \
	} while (0)

#endif
