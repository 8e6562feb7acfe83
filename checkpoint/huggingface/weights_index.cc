#include "checkpoint/huggingface/weights_index.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 200)), "\"");
}

// A name in the directory itself, of a file of weights.
bool IsFileName(const std::string& name) {
  return name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
         absl::EndsWith(name, ".safetensors") && name.size() <= 255;
}

// Receives the parser's events: a tree of values would keep the last of two equal names. Keeps
// nothing but the map; what else the file says is skipped.
class IndexHandler final : public nlohmann::json_sax<Json> {
 public:
  WeightsIndex index;
  std::string error;
  bool has_map = false;

  bool null() override { return Plain("null"); }
  bool boolean(bool) override { return Plain("a boolean"); }
  bool number_integer(number_integer_t) override { return Plain("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Plain("a number"); }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool total = depth_ == 2 && !in_map_ && section_ == "metadata" && key_ == "total_size";
    if (total && value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      index.total_bytes = static_cast<int64_t>(value);
    }
    return Plain("a number");
  }
  bool string(string_t& value) override {
    if (!in_map_) return Plain("a text");
    if (!IsFileName(value)) {
      return Fail(absl::StrCat("tensor ", Quoted(key_), ": ", Quoted(value),
                               " is not the name of a .safetensors file in this directory"));
    }
    files_.insert(value);
    if (files_.size() > kMostWeightFiles) {
      return Fail(absl::StrCat("names more than ", kMostWeightFiles, " files"));
    }
    return index.file_of.emplace(key_, value).second ||
           Fail(absl::StrCat("tensor ", Quoted(key_), " twice"));
  }
  bool start_object(std::size_t) override {
    if (in_map_) return Fail(absl::StrCat("tensor ", Quoted(key_), ": not a file's name"));
    ++depth_;
    if (depth_ != 2) return true;
    section_ = key_;
    in_map_ = key_ == "weight_map";
    if (in_map_ && has_map) return Fail("weight_map twice");
    has_map |= in_map_;
    return true;
  }
  bool key(string_t& key) override {
    key_ = key;
    return true;
  }
  bool end_object() override {
    --depth_;
    in_map_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0 || in_map_) return Fail("a list where an object was expected");
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("no valid JSON at byte ", position));
  }

 private:
  bool Fail(const std::string& what) {
    error = what;
    return false;
  }
  bool Plain(const char* what) {
    if (depth_ == 0) return Fail("not a JSON object");
    if (!in_map_) return true;
    return Fail(absl::StrCat("tensor ", Quoted(key_), ": ", what, " is no file's name"));
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string key_, section_;
  std::set<std::string> files_;
};

}  // namespace

absl::StatusOr<WeightsIndex> ParseWeightsIndex(const std::string& text) {
  IndexHandler handler;
  if (!Json::sax_parse(text, &handler)) return absl::InvalidArgumentError(handler.error);
  if (!handler.has_map) return absl::InvalidArgumentError("weight_map: missing");
  if (handler.index.file_of.empty()) return absl::InvalidArgumentError("weight_map: empty");
  return std::move(handler.index);
}

absl::StatusOr<std::string> FormatWeightsIndex(const WeightsIndex& index) {
  const Json json = {{"metadata", {{"total_size", index.total_bytes}}},
                     {"weight_map", index.file_of}};
  try {
    return json.dump(2) + "\n";
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace strata::checkpoint
