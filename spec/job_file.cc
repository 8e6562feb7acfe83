#include "spec/job_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "spec/defaults.h"
#include "spec/overlay.h"
#include "spec/reader.h"
#include "spec/scalars.h"
#include "spec/schema.h"
#include "spec/validate.h"
#include "spec/yaml_tree.h"

namespace strata::spec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Text in a form that YAML reads back as the same text: plain where that is safe, else in double
// quotes.
std::string QuoteText(const std::string& text) {
  const auto plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '_' ||
           c == '-';
  };
  const bool safe = !text.empty() && std::all_of(text.begin(), text.end(), plain) &&
                    (absl::ascii_isalpha(static_cast<unsigned char>(text[0])) || text[0] == '/') &&
                    text != "null" && text != "Null" && text != "NULL";
  if (safe) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

std::string ScalarText(const Message& section, const FieldDescriptor& field) {
  const auto& reflection = *section.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t value = reflection.GetInt64(section, &field);
      const bool automatic = value == 0 && field.name() == "micro_batch";
      return automatic ? "auto" : absl::StrCat(value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return ShortestNumber(reflection.GetDouble(section, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(section, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return WordOf(*reflection.GetEnum(section, &field));
    default:
      return QuoteText(reflection.GetString(section, &field));
  }
}

// Appends `section`'s keys, the first one after `first_indent`, the others after `indent`.
void WriteSection(const Message& section, const std::string& first_indent,
                  const std::string& indent, std::string& out) {
  const auto& reflection = *section.GetReflection();
  bool first = true;
  for (const std::string& key : KeysOf(*section.GetDescriptor())) {
    const FieldDescriptor& field = *FindKey(*section.GetDescriptor(), key);
    const std::string at = absl::StrCat(first ? first_indent : indent, key, ":");
    if (field.is_repeated()) {
      const int count = reflection.FieldSize(section, &field);
      if (count == 0) continue;
      absl::StrAppend(&out, at, "\n");
      for (int i = 0; i < count; ++i) {
        WriteSection(reflection.GetRepeatedMessage(section, &field, i), indent + "  - ",
                     indent + "    ", out);
      }
    } else if (!reflection.HasField(section, &field)) {
      continue;
    } else if (field.message_type() == nullptr) {
      absl::StrAppend(&out, at, " ", ScalarText(section, field), "\n");
    } else {
      const Message& child = reflection.GetMessage(section, &field);
      std::string body;
      WriteSection(child, indent + "  ", indent + "  ", body);
      const bool automatic =
          key == "parallel" && static_cast<const strata::v1::ParallelSpec&>(child).automatic();
      absl::StrAppend(&out, at,
                      automatic      ? " auto\n"
                      : body.empty() ? " {}\n"
                                     : "\n",
                      automatic ? "" : body);
    }
    first = false;
  }
}

// `--ranks N` without a parallel section means N data-parallel ranks.
void ApplyRanks(const ReadOptions& options, const PositionMap& positions,
                strata::v1::JobSpec& job) {
  if (options.ranks.has_value() && !positions.Has("parallel")) {
    job.mutable_parallel()->set_data(*options.ranks);
  }
}

}  // namespace

JobFile ReadJob(absl::string_view text, const ReadOptions& options, Problems& problems) {
  JobFile file;
  std::unique_ptr<YamlNode> root = ParseYaml(text, problems);
  if (root != nullptr) {
    for (const std::string& setting : options.settings) ApplySetting(setting, *root, problems);
    ReadTree(*root, file.job, file.positions, problems);
    ApplyRanks(options, file.positions, file.job);
  }
  ApplyDefaults(options.default_name, file.job);
  const bool readable = root != nullptr && (root->kind == YamlNode::Kind::kMapping ||
                                            root->kind == YamlNode::Kind::kNull);
  if (readable) Validate(file.job, file.positions, options.ranks, problems);
  return file;
}

std::string WriteJob(const strata::v1::JobSpec& job) {
  std::string text;
  WriteSection(job, "", "", text);
  return text.empty() ? "{}\n" : text;
}

}  // namespace strata::spec
