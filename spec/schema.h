// What a job or a policy file may hold, read off the fields of JobSpec and Policy: a field's name
// is its key. Bounds stand in a table here.
#ifndef STRATA_SPEC_SCHEMA_H_
#define STRATA_SPEC_SCHEMA_H_

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace strata::spec {

// Allowed values of a count or a number. Bounds that are `open` are not themselves allowed.
struct Bounds {
  const char* path;  // without list indices: data.train.weight; of a map's values, that of the map
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_open = false;
  bool most_open = false;
};

// The bounds of the field at `path` (indices left out), or null when every value of the type is
// fine.
const Bounds* FindBounds(absl::string_view path);

// What is demanded of a value that is outside: "at least 1", "greater than 0 and less than 1", …
// Upper bounds that only guard against overflow are mentioned when `value` is above them.
std::string Describe(const Bounds& bounds, double value);
bool Within(const Bounds& bounds, double value);

// The word a file uses for an enum value: ParallelSpec::SHARD_ZERO1 is "zero1".
std::string WordOf(const google::protobuf::EnumValueDescriptor& value);
// All words of an enum, in their order, without the unspecified one.
std::vector<std::string> WordsOf(const google::protobuf::EnumDescriptor& type);
// The value of a word, or null.
const google::protobuf::EnumValueDescriptor* FindWord(const google::protobuf::EnumDescriptor& type,
                                                      absl::string_view word);

// The word that stands for 0 in a count: "auto" of train.micro_batch, "off" of
// parallel.virtual_shards; empty: none.
std::string WordOfZero(const google::protobuf::FieldDescriptor& field);

// Whether a count may also be written as a share of the whole, `2%`: the section keeps that in its
// field `fraction`.
bool MayBeShare(const google::protobuf::FieldDescriptor& field);

// Whether a count is of bytes and may be written with a unit: `2GiB`.
bool IsSize(const google::protobuf::FieldDescriptor& field);

// A range of layers is a section of the message but one value of the file: `0-11`. So is a
// duration: `4h`.
bool IsLayerRange(const google::protobuf::FieldDescriptor& field);
bool IsDuration(const google::protobuf::FieldDescriptor& field);

// The keys of one level, in the order of the file's documentation.
std::vector<std::string> KeysOf(const google::protobuf::Descriptor& section);
// The field of a key, or null.
const google::protobuf::FieldDescriptor* FindKey(const google::protobuf::Descriptor& section,
                                                 absl::string_view key);

// What was meant by the unknown `key` in the section at `path` of a `root`: a key of the same
// level, else the whole path of one elsewhere; empty when nothing is near.
struct Suggestion {
  std::string text;  // to print
  std::string path;  // of the field meant; empty when it lies in a list elsewhere
};
Suggestion SuggestKey(const google::protobuf::Descriptor& root,
                      const google::protobuf::Descriptor& section, absl::string_view path,
                      absl::string_view key);

}  // namespace strata::spec

#endif  // STRATA_SPEC_SCHEMA_H_
