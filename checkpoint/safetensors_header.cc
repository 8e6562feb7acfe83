#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr char kMetadataKey[] = "__metadata__";

std::string Quoted(const std::string& name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

// Receives the parser's events. A tree of values would silently keep the last of two equal keys.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader header;
  std::string error;

  bool null() override { return Fail("null is no value here"); }
  bool boolean(bool) override { return Fail("a boolean is no value here"); }
  bool number_integer(number_integer_t) override { return Fail("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Fail("a number that is not a whole one below 2^63");
  }
  bool binary(binary_t&) override { return Fail("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kNumbers) return Fail("a number is no value here");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail("a number beyond 2^63 - 1");
    }
    numbers_->push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return Fail("a text is no value here");
    const std::optional<DType> dtype = DTypeFromName(value);
    if (!dtype.has_value()) return Fail(absl::StrCat("dtype ", Quoted(value), " is not supported"));
    header.entries.back().dtype = *dtype;
    return true;
  }
  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      header.entries.emplace_back().name = key_;
      offsets_.clear();
      fields_.clear();
    } else {
      return Fail("an object is no value here");
    }
    return true;
  }
  bool key(string_t& key) override {
    key_ = key;
    if (place_ == Place::kTop) {
      if (!names_.insert(key).second) return Fail(absl::StrCat("name ", Quoted(key), " twice"));
      return true;
    }
    if (place_ == Place::kMetadata) {
      return header.metadata.count(key) == 0 || Fail(absl::StrCat("key ", Quoted(key), " twice"));
    }
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return Fail(absl::StrCat("unknown field ", Quoted(key)));
    }
    return fields_.insert(key).second || Fail(absl::StrCat("field ", Quoted(key), " twice"));
  }
  bool end_object() override {
    if (place_ == Place::kTensor && !EndTensor()) return false;
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Fail("a list is no value here");
    numbers_ = key_ == "shape" ? &header.entries.back().shape : &offsets_;
    place_ = Place::kNumbers;
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("no valid JSON at byte ", position));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kNumbers, kEnd };

  bool Fail(const std::string& what) {
    const bool inside = place_ == Place::kTensor || place_ == Place::kNumbers;
    error = inside ? absl::StrCat("tensor ", Quoted(header.entries.back().name), ": ", what) : what;
    return false;
  }
  bool EndTensor() {
    if (fields_.size() != 3) return Fail("needs dtype, shape and data_offsets");
    if (offsets_.size() != 2) return Fail("data_offsets must be two numbers");
    if (offsets_[1] < offsets_[0]) return Fail("data_offsets run backwards");
    header.entries.back().offset_bytes = offsets_[0];
    header.entries.back().size_bytes = offsets_[1] - offsets_[0];
    return true;
  }

  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t>* numbers_ = nullptr;
};

absl::Status CheckSizes(const std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  int64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto fail = [&entry](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat("header: tensor ", Quoted(entry.name), ": ", what));
    };
    const absl::StatusOr<int64_t> count = ElementCount(entry.shape);
    if (!count.ok()) return fail(std::string(count.status().message()));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(*count, SizeOf(entry.dtype), &bytes)) {
      return fail("more than 2^63 - 1 bytes");
    }
    if (bytes != entry.size_bytes) {
      return fail(
          absl::StrCat("data_offsets hold ", entry.size_bytes, " bytes, its shape needs ", bytes));
    }
    if (entry.offset_bytes != end) {
      return fail(absl::StrCat("its data begins at byte ", entry.offset_bytes, ", where byte ", end,
                               " is the next"));
    }
    end += bytes;  // cannot overflow: begin + size is the second offset
  }
  if (end != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors hold ", end, " bytes of data, the file ", data_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonString(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not UTF-8"));
  }
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& json,
                                                         int64_t data_bytes) {
  if (json.empty() || json[0] != '{') {
    return absl::InvalidArgumentError("header: does not begin with {");
  }
  HeaderHandler handler;
  if (!Json::sax_parse(json, &handler)) {
    return absl::InvalidArgumentError(absl::StrCat("header: ", handler.error));
  }
  SafetensorsHeader header = std::move(handler.header);
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::tie(a.offset_bytes, a.size_bytes) <
                            std::tie(b.offset_bytes, b.size_bytes);
                   });
  RETURN_IF_ERROR(CheckSizes(header.entries, data_bytes));
  return header;
}

absl::StatusOr<std::string> FormatSafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                                                    const SafetensorsMetadata& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) {
      ASSIGN_OR_RETURN(const std::string key_text, JsonString(key));
      ASSIGN_OR_RETURN(const std::string value_text, JsonString(value));
      pairs.push_back(absl::StrCat(key_text, ":", value_text));
    }
    members.push_back(absl::StrCat("\"", kMetadataKey, "\":{", absl::StrJoin(pairs, ","), "}"));
  }
  for (const SafetensorsEntry& entry : entries) {
    if (entry.name == kMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat(kMetadataKey, " cannot be a tensor's name"));
    }
    ASSIGN_OR_RETURN(const std::string name, JsonString(entry.name));
    members.push_back(absl::StrCat(name, ":{\"dtype\":\"", NameOf(entry.dtype), "\",\"shape\":[",
                                   absl::StrJoin(entry.shape, ","), "],\"data_offsets\":[",
                                   entry.offset_bytes, ",", entry.offset_bytes + entry.size_bytes,
                                   "]}"));
  }
  std::string header = absl::StrCat("{", absl::StrJoin(members, ","), "}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace strata::checkpoint
