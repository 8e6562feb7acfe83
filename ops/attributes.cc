#include "ops/attributes.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace strata::ops {
namespace {

using program::Group;

constexpr int64_t kLargestGroup = Group{Group::kWorld.axes, true}.ToInt();

}  // namespace

void AttributeWriter::Of(const char*, Group& value) { op_.ints.push_back(value.ToInt()); }

void AttributeWriter::Ranges(const char*, std::vector<Range>& value) {
  for (const auto& [begin, end] : value) op_.ints.insert(op_.ints.end(), {begin, end});
}

void AttributeReader::Fail(std::string message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(message));
}

int64_t AttributeReader::Int(const char* name, int64_t least, int64_t most) {
  if (ints_ >= op_.ints.size()) {
    Fail(absl::StrCat("has ", op_.ints.size(), " ints; ", name, " is missing"));
    return 0;
  }
  const int64_t value = op_.ints[ints_++];
  if (value < least || value > most) {
    Fail(absl::StrCat(name, " is ", value,
                      value < least ? absl::StrCat(", at least ", least, " is needed")
                                    : absl::StrCat(", at most ", most, " is possible")));
  }
  return value;
}

void AttributeReader::Of(const char* name, Group& value) {
  value = Group::FromInt(Int(name, 0, kLargestGroup));
  if ((value.axes & ~Group::kWorld.axes) != 0) Fail(absl::StrCat(name, " is no group"));
}

void AttributeReader::Number(const char* name, double& value) {
  if (floats_ >= op_.floats.size()) {
    return Fail(absl::StrCat("has ", op_.floats.size(), " floats; ", name, " is missing"));
  }
  value = op_.floats[floats_++];
  if (!std::isfinite(value)) Fail(absl::StrCat(name, " is not finite"));
}

void AttributeReader::Type(const char* name, program::DType& value) {
  using program::DType;
  value = static_cast<DType>(Int(name, 0, static_cast<int64_t>(DType::kNf4F32)));
  if (value != DType::kF32 && value != DType::kBF16 && value != DType::kF16) {
    Fail(absl::StrCat(name, " is no type of numbers"));
  }
}

void AttributeReader::Ranges(const char* name, std::vector<Range>& value) {
  int64_t least = 0;
  while (ints_ < op_.ints.size()) {
    const int64_t begin = Int(name, least, INT64_MAX - 1);
    const int64_t end = Int(name, begin + 1, INT64_MAX);
    value.emplace_back(begin, end);
    least = end;
  }
}

absl::Status AttributeReader::Finish() {
  if (ints_ < op_.ints.size()) {
    Fail(absl::StrCat("has ", op_.ints.size(), " ints, not ", ints_));
  }
  if (floats_ < op_.floats.size()) {
    Fail(absl::StrCat("has ", op_.floats.size(), " floats, not ", floats_));
  }
  return status_;
}

}  // namespace strata::ops
