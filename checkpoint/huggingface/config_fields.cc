#include "checkpoint/huggingface/config_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestList = size_t{1} << 16;

}  // namespace

const Json* ConfigFields::Find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

bool ConfigFields::IsNull(const char* key) const {
  const Json* const value = Find(key);
  return value != nullptr && value->is_null();
}

bool ConfigFields::Has(const char* key) const {
  const Json* const value = Find(key);
  return value != nullptr && !value->is_null();
}

void ConfigFields::Report(const std::string& key, absl::string_view what,
                          absl::string_view instead) const {
  problems_.push_back(absl::StrCat(prefix_, key, ": ", what, " — ", instead));
}

int64_t ConfigFields::Count(const char* key, int64_t otherwise, int64_t most) const {
  if (!Has(key)) return otherwise;
  const Json& value = *Find(key);
  // Some files write whole numbers with a point.
  const bool whole = value.is_number_float() && value.get<double>() >= 0 &&
                     value.get<double>() <= static_cast<double>(most) &&
                     value.get<double>() == std::floor(value.get<double>());
  if (whole) return static_cast<int64_t>(value.get<double>());
  if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(most)) {
    return value.get<int64_t>();
  }
  Report(key, "not a count", absl::StrCat("it must be a whole number, at most ", most));
  return otherwise;
}

double ConfigFields::Number(const char* key, double otherwise) const {
  if (!Has(key)) return otherwise;
  const Json& value = *Find(key);
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  Report(key, "not a number", "correct the file");
  return otherwise;
}

bool ConfigFields::Flag(const char* key, bool otherwise) const {
  if (!Has(key)) return otherwise;
  const Json& value = *Find(key);
  if (value.is_boolean()) return value.get<bool>();
  Report(key, "not true or false", "correct the file");
  return otherwise;
}

std::string ConfigFields::Text(const char* key, const std::string& otherwise) const {
  if (!Has(key)) return otherwise;
  const Json& value = *Find(key);
  if (value.is_string()) return value.get<std::string>();
  Report(key, "not a text", "correct the file");
  return otherwise;
}

std::vector<double> ConfigFields::Numbers(const char* key) const {
  std::vector<double> numbers;
  if (!Has(key)) return numbers;
  const Json& list = *Find(key);
  bool good = list.is_array() && list.size() <= kLongestList;
  for (size_t i = 0; good && i < list.size(); ++i) {
    good = list[i].is_number() && std::isfinite(list[i].get<double>());
    if (good) numbers.push_back(list[i].get<double>());
  }
  if (!good) Report(key, "not a list of numbers", "correct the file");
  return numbers;
}

std::vector<std::string> ConfigFields::Texts(const char* key) const {
  std::vector<std::string> texts;
  if (!Has(key)) return texts;
  const Json& list = *Find(key);
  bool good = list.is_array() && list.size() <= kLongestList;
  for (size_t i = 0; good && i < list.size(); ++i) {
    good = list[i].is_string();
    if (good) texts.push_back(list[i].get<std::string>());
  }
  if (!good) Report(key, "not a list of texts", "correct the file");
  return texts;
}

ConfigFields ConfigFields::Object(const char* key) const {
  static const Json& none = *new Json(Json::object());
  const bool there = Has(key);
  if (there && !Find(key)->is_object()) Report(key, "not an object", "correct the file");
  const Json& object = there && Find(key)->is_object() ? *Find(key) : none;
  return ConfigFields(object, absl::StrCat(prefix_, key, "."), &problems_);
}

const Json* TextPart(const Json& json) {
  const auto type = json.find("model_type"), text = json.find("text_config");
  const bool sees = type != json.end() && *type == "gemma3";
  return sees && text != json.end() && text->is_object() ? &*text : nullptr;
}

}  // namespace strata::checkpoint
