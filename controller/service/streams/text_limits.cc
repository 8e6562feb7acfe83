#include "controller/service/streams/text_limits.h"

#include <vector>

#include "absl/strings/match.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsWhole(const FieldDescriptor* field) {
  static const FieldDescriptor* const kFragments =
      v1::CheckpointFragments::descriptor()->FindFieldByNumber(
          v1::CheckpointFragments::kFragmentsFieldNumber);
  static const FieldDescriptor* const kLogText =
      v1::LogLine::descriptor()->FindFieldByNumber(v1::LogLine::kTextFieldNumber);
  return field == kFragments || field == kLogText;
}

size_t MostBytesOf(const FieldDescriptor* field) {
  const bool path =
      absl::EndsWith(field->name(), "path") || absl::EndsWith(field->name(), "folder");
  return path ? kMostPathBytes : kMostTextBytes;
}

void CutStrings(Message& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  const size_t most = MostBytesOf(field);
  std::string kept;
  const auto too_long = [&](const std::string& text) {
    if (text.size() <= most) return false;
    kept = text;
    CutText(most, kept);
    return true;
  };
  std::string scratch;
  if (!field->is_repeated()) {
    if (too_long(reflection.GetStringReference(message, field, &scratch))) {
      reflection.SetString(&message, field, kept);
    }
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    if (too_long(reflection.GetRepeatedStringReference(message, field, i, &scratch))) {
      reflection.SetRepeatedString(&message, field, i, kept);
    }
  }
}

void CutAll(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (IsWhole(field)) continue;
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      CutStrings(message, field);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (!field->is_repeated()) {
      CutAll(*reflection.MutableMessage(&message, field));
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        CutAll(*reflection.MutableRepeatedMessage(&message, field, i));
      }
    }
  }
}

}  // namespace

void CutText(size_t most, std::string& text) {
  if (text.size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
  text += " …";
}

void CutTexts(v1::AgentMessage& message) { CutAll(message); }

}  // namespace strata::controller
