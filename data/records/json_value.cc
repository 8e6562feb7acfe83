#include "data/records/json_value.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace strata::data {
namespace {

using jinja::Dict;
using jinja::Value;

// Builds the value bottom-up as the parser tells what it reads. Each call returns whether to go on.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(Value()); }
  bool boolean(bool value) override { return Add(Value::Of(value)); }
  bool number_integer(int64_t value) override { return Add(Value::Of(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value > INT64_MAX) return Fail(absl::StrCat(value, ": an integer beyond 64 bits"));
    return Add(Value::Of(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string& text) override {
    // What is written as an integer and does not fit comes as a float.
    if (text.find_first_of(".eE") == std::string::npos) {
      return Fail(absl::StrCat(text.substr(0, 40), ": an integer beyond 64 bits"));
    }
    return Add(Value::Of(value));
  }
  bool string(std::string& value) override { return Add(Value::Text(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return Fail("binary"); }

  bool start_object(size_t) override { return Open(true); }
  bool key(std::string& key) override {
    Level& level = levels_.back();
    if (level.dict.Find(key) != nullptr) {
      return Fail(absl::StrCat("the key \"", key, "\" stands twice in one object"));
    }
    level.key = std::move(key);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 8: syntax error while …"
    std::string what = error.what();
    if (const size_t begin = what.find(": "); begin != std::string::npos) what.erase(0, begin + 2);
    what = what.substr(0, what.find("; last read"));  // bytes that need not be UTF-8
    return Fail(absl::StrCat("at byte ", position, ": ", what.substr(0, 200)));
  }

  absl::StatusOr<Value> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }
  absl::Status TakeError() {
    return status_.ok() ? absl::InvalidArgumentError("not valid JSON") : status_;
  }

 private:
  struct Level {
    bool is_object;
    std::string key;
    Dict dict;
    std::vector<Value> items;
  };

  bool Fail(const std::string& what) {
    status_ = absl::InvalidArgumentError(absl::StrCat("not valid JSON here: ", what));
    return false;
  }
  bool Add(Value value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (levels_.back().is_object) {
      levels_.back().dict.Set(std::move(levels_.back().key), std::move(value));
    } else {
      levels_.back().items.push_back(std::move(value));
    }
    return true;
  }
  bool Open(bool is_object) {
    if (levels_.size() >= kMaxLevels) {
      return Fail(absl::StrCat("more than ", kMaxLevels, " levels deep"));
    }
    levels_.push_back({is_object, "", {}, {}});
    return true;
  }
  bool Close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    absl::StatusOr<Value> value =
        level.is_object ? Value::Of(std::move(level.dict)) : Value::Of(std::move(level.items));
    if (!value.ok()) return Fail(std::string(value.status().message()));
    return Add(*std::move(value));
  }

  // Templates may put what they read into lists of their own.
  static constexpr size_t kMaxLevels = Value::kMaxDepth - 10;

  std::vector<Level> levels_;
  Value root_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Value> ParseJsonValue(std::string_view json) {
  Builder builder;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) return builder.TakeError();
  return builder.Take();
}

}  // namespace strata::data
