#include "worker/trainer/job_difference.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace strata::worker {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Paths, or what they begin with.
constexpr const char* kRefused[] = {
    "model.",          "data.train",          "data.shuffle",       "data.validation.fraction",
    "data.packing",    "train.sequence",      "train.global_batch", "train.seed",
    "train.optimizer", "train.gradient_clip", "train.method"};
// Checkpoints hold masters and moments as numbers that any type can take in.
constexpr const char* kTold[] = {
    "train.precision",          "train.optimizer.master",        "train.optimizer.state",
    "train.optimizer.gradient", "train.optimizer.learning_rate", "train.schedule",
    "parallel.virtual_shards",  "data.validation.path",          "data.tokenizer",
    "train.micro_batch"};

template <size_t kCount>
bool StartsWithAny(const std::string& path, const char* const (&prefixes)[kCount]) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](const char* prefix) { return absl::StartsWith(path, prefix); });
}

// Where the weights are that the job began with: what they are counts.
bool IsWeightsPath(const std::string& path) {
  return path == "model.from" ||
         (absl::StartsWith(path, "model.weights[") && absl::EndsWith(path, ".path"));
}

// Of a data file where it is, or what it was prepared from.
bool IsDataPath(const std::string& path) {
  return (absl::StartsWith(path, "data.train[") || absl::StartsWith(path, "data.validation.")) &&
         absl::EndsWith(path, ".path");
}

std::string ValueText(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  if (!field->is_repeated() && field->has_presence() && !reflection.HasField(message, field)) {
    return "absent";
  }
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
  return text;
}

class Comparison {
 public:
  explicit Comparison(DataFilesBy by) : by_(by) {}

  void Compare(const Message& a, const Message& b, const std::string& prefix) {
    const google::protobuf::Descriptor& type = *a.GetDescriptor();
    for (int f = 0; f < type.field_count(); ++f) {
      const FieldDescriptor* const field = type.field(f);
      const std::string path = absl::StrCat(prefix, field->name());
      if (field->message_type() == v1::PreparedFrom::descriptor()) continue;
      if (by_ == DataFilesBy::kContent && IsDataPath(path)) continue;
      if (IsWeightsPath(path)) continue;
      if (field->is_repeated()) {
        CompareRepeated(a, b, field, path);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Compare(a.GetReflection()->GetMessage(a, field), b.GetReflection()->GetMessage(b, field),
                path + ".");
      } else {
        CompareValue(a, b, field, -1, path);
      }
    }
  }
  JobDifference Take() { return std::move(found_); }

 private:
  void CompareRepeated(const Message& a, const Message& b, const FieldDescriptor* field,
                       const std::string& path) {
    const int count = a.GetReflection()->FieldSize(a, field);
    const int other = b.GetReflection()->FieldSize(b, field);
    if (count != other) {
      return Report(path, absl::StrCat(count, " entries"), absl::StrCat(other, " entries"));
    }
    for (int i = 0; i < count; ++i) {
      const std::string element = absl::StrCat(path, "[", i, "]");
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Compare(a.GetReflection()->GetRepeatedMessage(a, field, i),
                b.GetReflection()->GetRepeatedMessage(b, field, i), element + ".");
      } else {
        CompareValue(a, b, field, i, element);
      }
    }
  }

  void CompareValue(const Message& a, const Message& b, const FieldDescriptor* field, int index,
                    const std::string& path) {
    const std::string mine = ValueText(a, field, index), theirs = ValueText(b, field, index);
    if (mine != theirs) Report(path, mine, theirs);
  }

  void Report(const std::string& path, const std::string& mine, const std::string& theirs) {
    const std::string text = absl::StrCat(path, ": ", mine, ", the checkpoint's ", theirs);
    if (StartsWithAny(path, kTold)) {
      found_.told.push_back(text);
    } else if (StartsWithAny(path, kRefused)) {
      found_.refused.push_back(text);
    }
  }

  const DataFilesBy by_;
  JobDifference found_;
};

}  // namespace

JobDifference CompareJobs(const v1::JobSpec& job, const v1::JobSpec& checkpoint, DataFilesBy by) {
  Comparison comparison(by);
  comparison.Compare(job, checkpoint, "");
  return comparison.Take();
}

}  // namespace strata::worker
