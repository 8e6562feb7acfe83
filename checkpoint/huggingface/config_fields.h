// Typed access to the keys of a config.json: a mistake is noted with its key, and reading goes on.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_CONFIG_FIELDS_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_CONFIG_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace strata::checkpoint {

// An object of the file. Keys that are absent, or null, have the value given as `otherwise`.
class ConfigFields {
 public:
  // `prefix` of the object's keys in messages: "" or "rope_scaling.". Both are borrowed.
  ConfigFields(const nlohmann::json& object, std::string prefix, std::vector<std::string>* problems)
      : object_(object), prefix_(std::move(prefix)), problems_(*problems) {}

  // The value; null pointer: absent.
  const nlohmann::json* Find(const char* key) const;
  bool IsNull(const char* key) const;  // there, and null
  bool Has(const char* key) const;     // there, and not null

  int64_t Count(const char* key, int64_t otherwise, int64_t most = int64_t{1} << 40) const;
  double Number(const char* key, double otherwise) const;
  bool Flag(const char* key, bool otherwise) const;
  std::string Text(const char* key, const std::string& otherwise) const;
  // Empty: absent.
  std::vector<double> Numbers(const char* key) const;
  std::vector<std::string> Texts(const char* key) const;
  // The object under a key; an empty one where there is none.
  ConfigFields Object(const char* key) const;
  bool empty() const { return object_.empty(); }

  void Report(const std::string& key, absl::string_view what, absl::string_view instead) const;

 private:
  const nlohmann::json& object_;
  const std::string prefix_;
  std::vector<std::string>& problems_;
};

// The part that is a language model of a model with eyes; null: `json` is one itself.
const nlohmann::json* TextPart(const nlohmann::json& json);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_CONFIG_FIELDS_H_
