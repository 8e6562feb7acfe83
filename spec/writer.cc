#include "spec/writer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/strata/v1/job.pb.h"
#include "spec/scalars.h"
#include "spec/schema.h"

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
      const std::string word = WordOfZero(field);
      return value == 0 && !word.empty() ? word : absl::StrCat(value);
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

// {h100: 64, "*": 128} or {team: nlp}, in the order of the keys.
std::string MapText(const Message& section, const FieldDescriptor& field) {
  const auto& reflection = *section.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  const bool texts = value.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  std::map<std::string, std::string> entries;
  for (int i = 0; i < reflection.FieldSize(section, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(section, &field, i);
    const auto& inner = *entry.GetReflection();
    entries[inner.GetString(entry, &key)] = texts ? QuoteText(inner.GetString(entry, &value))
                                                  : absl::StrCat(inner.GetInt64(entry, &value));
  }
  return absl::StrCat("{",
                      absl::StrJoin(entries, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, QuoteText(entry.first), ": ",
                                                      entry.second);
                                    }),
                      "}");
}

// [2, 3, 3, 2]
std::string ListText(const Message& section, const FieldDescriptor& field) {
  const auto& reflection = *section.GetReflection();
  std::vector<std::string> elements;
  for (int i = 0; i < reflection.FieldSize(section, &field); ++i) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        elements.push_back(QuoteText(reflection.GetRepeatedString(section, &field, i)));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        elements.push_back(ShortestNumber(reflection.GetRepeatedDouble(section, &field, i)));
        break;
      default:
        elements.push_back(absl::StrCat(reflection.GetRepeatedInt64(section, &field, i)));
    }
  }
  return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
}

// Of a section that its file writes as one value, else empty.
std::string ValueOf(const Message& section) {
  if (const auto* parallel = dynamic_cast<const strata::v1::ParallelSpec*>(&section)) {
    return parallel->automatic() ? "auto" : "";
  }
  if (const auto* memory = dynamic_cast<const strata::v1::MemorySpec*>(&section)) {
    return memory->automatic() ? "auto" : "";
  }
  if (const auto* place = dynamic_cast<const strata::v1::PlaceSpec*>(&section)) {
    return place->automatic() ? "auto" : "";
  }
  if (const auto* stream = dynamic_cast<const strata::v1::StreamSpec*>(&section)) {
    return stream->automatic() ? "auto" : "";
  }
  if (const auto* shares = dynamic_cast<const strata::v1::TierShares*>(&section)) {
    return shares->device() == 1    ? "device"
           : shares->host() == 1    ? "host"
           : shares->ssd() == 1     ? "ssd"
           : shares->unified() == 1 ? "unified"
                                    : "";
  }
  if (const auto* recompute = dynamic_cast<const strata::v1::RecomputeSpec*>(&section)) {
    return recompute->has_mode()
               ? WordOf(*strata::v1::RecomputeSpec::Mode_descriptor()->FindValueByNumber(
                     recompute->mode()))
               : "";
  }
  if (const auto* range = dynamic_cast<const strata::v1::LayerRange*>(&section)) {
    return absl::StrCat(range->first(), "-", range->last());
  }
  if (const auto* duration = dynamic_cast<const google::protobuf::Duration*>(&section)) {
    return DurationText(absl::Seconds(duration->seconds()) + absl::Nanoseconds(duration->nanos()));
  }
  return "";
}

// "2%" for a count that is written as a share, else empty.
std::string ShareText(const Message& section, const FieldDescriptor& field) {
  if (!MayBeShare(field)) return "";
  const FieldDescriptor& share = *section.GetDescriptor()->FindFieldByName("fraction");
  if (!section.GetReflection()->HasField(section, &share)) return "";
  return absl::StrFormat("%.12g%%", 100 * section.GetReflection()->GetDouble(section, &share));
}

// Appends `section`'s keys, the first one after `first_indent`, the others after `indent`.
void WriteSection(const Message& section, const std::string& first_indent,
                  const std::string& indent, std::string& out) {
  const auto& reflection = *section.GetReflection();
  bool first = true;
  for (const std::string& key : KeysOf(*section.GetDescriptor())) {
    const FieldDescriptor& field = *FindKey(*section.GetDescriptor(), key);
    const std::string at = absl::StrCat(first ? first_indent : indent, key, ":");
    if (field.is_map()) {
      if (reflection.FieldSize(section, &field) == 0) continue;
      absl::StrAppend(&out, at, " ", MapText(section, field), "\n");
    } else if (field.is_repeated()) {
      const int count = reflection.FieldSize(section, &field);
      if (count == 0) continue;
      if (field.message_type() == nullptr) {
        absl::StrAppend(&out, at, " ", ListText(section, field), "\n");
        first = false;
        continue;
      }
      absl::StrAppend(&out, at, "\n");
      for (int i = 0; i < count; ++i) {
        WriteSection(reflection.GetRepeatedMessage(section, &field, i), indent + "  - ",
                     indent + "    ", out);
      }
    } else if (const std::string share = ShareText(section, field); !share.empty()) {
      absl::StrAppend(&out, at, " ", share, "\n");
    } else if (!reflection.HasField(section, &field)) {
      continue;
    } else if (field.message_type() == nullptr) {
      absl::StrAppend(&out, at, " ", ScalarText(section, field), "\n");
    } else {
      const Message& child = reflection.GetMessage(section, &field);
      const std::string value = ValueOf(child);
      std::string body;
      if (value.empty()) WriteSection(child, indent + "  ", indent + "  ", body);
      absl::StrAppend(&out, at, value.empty() ? "" : absl::StrCat(" ", value),
                      value.empty() && body.empty() ? " {}\n" : "\n", body);
    }
    first = false;
  }
}

}  // namespace

std::string WriteFile(const Message& file) {
  std::string text;
  WriteSection(file, "", "", text);
  return text.empty() ? "{}\n" : text;
}

}  // namespace strata::spec
