// SPDX-License-Identifier: MIT
/* Status: arrow::Status inside of the library, errno and hm_errmsg() at its doors. */
#include "status.hh"

#include <cstdio>
#include <cstring>
#include <new>

#include <arrow/util/io_util.h>
#include <hetmap/base.h>
#include <hetmap/error.h>

namespace hetmap
{

namespace
{

constexpr size_t TEXT_MOST = 700; /* of a message of libarrow: it may quote the file */

/* The errno of a failure that this library found. */
class Number : public arrow::StatusDetail
{
      public:
	explicit Number(int r) : r_(r)
	{
	}
	const char *type_id() const override
	{
		return "hetmap";
	}
	std::string ToString() const override
	{
		return std::strerror(-r_);
	}
	int r() const
	{
		return r_;
	}

      private:
	int r_;
};

const Number *NumberOf(const Status &status)
{
	const auto &detail = status.detail();

	if (!detail || std::strcmp(detail->type_id(), "hetmap") != 0)
		return nullptr;
	return static_cast<const Number *>(detail.get());
}

Status Made(int r, std::string text)
{
	return Status(arrow::StatusCode::IOError, std::move(text), std::make_shared<Number>(r));
}

} /* namespace */

Status Fail(int r, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return Made(r, text);
}

Status FailOf(int r)
{
	return Made(r, hm_errmsg());
}

int ErrnoOf(const Status &status)
{
	const Number *number = NumberOf(status);
	int system;

	if (status.ok())
		return 0;
	if (number)
		return number->r();
	system = arrow::internal::ErrnoFromStatus(status);
	if (system)
		return -system;
	switch (status.code()) {
	case arrow::StatusCode::OutOfMemory:
		return -ENOMEM;
	case arrow::StatusCode::NotImplemented:
	case arrow::StatusCode::TypeError:
		return -EOPNOTSUPP;
	case arrow::StatusCode::CapacityError:
		return -EFBIG;
	case arrow::StatusCode::AlreadyExists:
		return -EEXIST;
	default:
		/* Invalid, IOError, SerializationError, IndexError, KeyError and others: what a
		 * decoder finds in a file. */
		return -EBADMSG;
	}
}

Status At(const std::string &where, const Status &status)
{
	if (status.ok() || where.empty())
		return status;
	return Made(ErrnoOf(status), where + ": " + TextOf(status));
}

std::string TextOf(const Status &status)
{
	std::string text = status.message();

	if (text.size() > TEXT_MOST)
		text = text.substr(0, TEXT_MOST) + "...";
	for (char &c : text)
		if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
			c = ' ';
	return text;
}

void Warn(const std::string &text)
{
	hm_error_set(0, "%s", text.c_str());
}

void Forget() noexcept
{
	hm_error_begin();
}

int Told(const Status &status) noexcept
{
	if (status.ok())
		return 0;
	try {
		return hm_error_set(ErrnoOf(status), "%s", TextOf(status).c_str());
	} catch (...) {
		return ToldThrown();
	}
}

int ToldThrown() noexcept
{
	try {
		throw;
	} catch (const std::bad_alloc &) {
		return hm_error_set(-ENOMEM, "a table: not enough memory is available");
	} catch (const std::exception &e) {
		return hm_error_set(-EBADMSG, "a table: %s", e.what());
	} catch (...) {
		return hm_error_set(-EIO, "a table: another library failed without a reason");
	}
}

} /* namespace hetmap */
