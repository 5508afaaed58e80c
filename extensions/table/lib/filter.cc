// SPDX-License-Identifier: MIT
/* Filters: which row groups have no row that a caller wants. */
#include "filter.hh"

#include <cmath>
#include <compare>
#include <optional>
#include <string_view>
#include <variant>

#include <arrow/util/decimal.h>
#include <hetmap/table.h>

namespace hetmap
{

namespace
{

using Key = std::variant<std::monostate, int64_t, uint64_t, double, std::string_view,
			 arrow::Decimal128>;

template <typename Type, typename To> Key Number(const arrow::Scalar &scalar)
{
	using S = typename arrow::TypeTraits<Type>::ScalarType;

	return static_cast<To>(static_cast<const S &>(scalar).value);
}

/* A value that compares as those of its type do. std::monostate: the type has no order here. */
Key KeyOf(const arrow::Scalar &scalar)
{
	if (!scalar.is_valid)
		return {};
	switch (scalar.type->id()) {
	case arrow::Type::BOOL:
		return Number<arrow::BooleanType, int64_t>(scalar);
	case arrow::Type::INT8:
		return Number<arrow::Int8Type, int64_t>(scalar);
	case arrow::Type::INT16:
		return Number<arrow::Int16Type, int64_t>(scalar);
	case arrow::Type::INT32:
		return Number<arrow::Int32Type, int64_t>(scalar);
	case arrow::Type::INT64:
		return Number<arrow::Int64Type, int64_t>(scalar);
	case arrow::Type::UINT8:
		return Number<arrow::UInt8Type, uint64_t>(scalar);
	case arrow::Type::UINT16:
		return Number<arrow::UInt16Type, uint64_t>(scalar);
	case arrow::Type::UINT32:
		return Number<arrow::UInt32Type, uint64_t>(scalar);
	case arrow::Type::UINT64:
		return Number<arrow::UInt64Type, uint64_t>(scalar);
	case arrow::Type::FLOAT:
		return Number<arrow::FloatType, double>(scalar);
	case arrow::Type::DOUBLE:
		return Number<arrow::DoubleType, double>(scalar);
	case arrow::Type::DATE32:
		return Number<arrow::Date32Type, int64_t>(scalar);
	case arrow::Type::DATE64:
		return Number<arrow::Date64Type, int64_t>(scalar);
	case arrow::Type::TIME32:
		return Number<arrow::Time32Type, int64_t>(scalar);
	case arrow::Type::TIME64:
		return Number<arrow::Time64Type, int64_t>(scalar);
	case arrow::Type::TIMESTAMP:
		return Number<arrow::TimestampType, int64_t>(scalar);
	case arrow::Type::DURATION:
		return Number<arrow::DurationType, int64_t>(scalar);
	case arrow::Type::DECIMAL128:
		return static_cast<const arrow::Decimal128Scalar &>(scalar).value;
	default:
		if (!arrow::is_base_binary_like(scalar.type->id()) &&
		    !arrow::is_binary_view_like(scalar.type->id()) &&
		    !arrow::is_fixed_size_binary(scalar.type->id()))
			return {};
		return static_cast<const arrow::BaseBinaryScalar &>(scalar).view();
	}
}

/* Units and scales must be the same for values to be comparable. */
bool SameUnit(const arrow::DataType &a, const arrow::DataType &b)
{
	if (arrow::is_temporal(a.id()) || arrow::is_decimal(a.id())) {
		if (a.id() == arrow::Type::TIMESTAMP && b.id() == arrow::Type::TIMESTAMP)
			return static_cast<const arrow::TimestampType &>(a).unit() ==
			       static_cast<const arrow::TimestampType &>(b).unit();
		if (a.id() == arrow::Type::DECIMAL128 && b.id() == arrow::Type::DECIMAL128)
			return static_cast<const arrow::Decimal128Type &>(a).scale() ==
			       static_cast<const arrow::Decimal128Type &>(b).scale();
		return a.Equals(b);
	}
	return true;
}

template <typename T> std::optional<int> Sign(const T &a, const T &b)
{
	if constexpr (std::is_same_v<T, double>)
		if (std::isnan(a) || std::isnan(b))
			return std::nullopt;
	return a < b ? -1 : b < a ? 1 : 0;
}

/* Below 0: @a is less; above 0: it is greater. None: there is no order between the two. */
std::optional<int> Order(const arrow::Scalar &a, const arrow::Scalar &b)
{
	Key x = KeyOf(a), y = KeyOf(b);

	if (x.index() != y.index() || !SameUnit(*a.type, *b.type))
		return std::nullopt;
	return std::visit(
		[&y](const auto &left) -> std::optional<int> {
			using T = std::decay_t<decltype(left)>;

			if constexpr (std::is_same_v<T, std::monostate>)
				return std::nullopt;
			else
				return Sign<T>(left, std::get<T>(y));
		},
		x);
}

} /* namespace */

static Result<std::shared_ptr<arrow::Scalar>>
ParseDecimal(const std::shared_ptr<arrow::DataType> &type, const char *text)
{
	const auto &decimal = static_cast<const arrow::Decimal128Type &>(*type);
	arrow::Decimal128 value;
	int32_t precision, scale;

	ARROW_RETURN_NOT_OK(arrow::Decimal128::FromString(text, &value, &precision, &scale));
	ARROW_ASSIGN_OR_RAISE(value, value.Rescale(scale, decimal.scale()));
	return std::make_shared<arrow::Decimal128Scalar>(value, type);
}

Result<std::shared_ptr<arrow::Scalar>> ParseValue(const std::shared_ptr<arrow::DataType> &type,
						  const char *text)
{
	Result<std::shared_ptr<arrow::Scalar>> value;

	if (type->id() == arrow::Type::DICTIONARY)
		return ParseValue(
			static_cast<const arrow::DictionaryType &>(*type).value_type(), text);
	if (type->id() == arrow::Type::DECIMAL128)
		value = ParseDecimal(type, text);
	else if (arrow::is_binary_view_like(type->id()))
		value = arrow::Scalar::Parse(arrow::binary(), text);
	else
		value = arrow::Scalar::Parse(type, text);
	if (!value.ok())
		return Fail(-EINVAL, "\"%s\" is no value of the type %s", text,
			    type->ToString().c_str());
	return value;
}

/* The least and the greatest value are on one side of @value. */
static bool NoneInRange(const Range &range, const Filter &filter)
{
	if (!range.min || !range.max)
		return false;
	auto min = Order(*range.min, *filter.value), max = Order(*range.max, *filter.value);

	if (!min || !max)
		return false;
	switch (filter.compare) {
	case HM_TABLE_EQUAL:
		return *min > 0 || *max < 0;
	case HM_TABLE_NOT_EQUAL:
		return range.exact && *min == 0 && *max == 0;
	case HM_TABLE_LESS:
		return *min >= 0;
	case HM_TABLE_LESS_EQUAL:
		return *min > 0;
	case HM_TABLE_GREATER:
		return *max <= 0;
	case HM_TABLE_GREATER_EQUAL:
		return *max < 0;
	default:
		return false;
	}
}

bool NonePasses(const Range &range, const Filter &filter)
{
	bool all_missing = range.nulls >= 0 && range.nulls == range.values;

	if (filter.compare == HM_TABLE_NULL)
		return range.nulls == 0;
	/* Only HM_TABLE_NULL is true of a missing value. */
	if (all_missing)
		return true;
	if (filter.compare == HM_TABLE_NOT_NULL)
		return false;
	return NoneInRange(range, filter);
}

} /* namespace hetmap */
