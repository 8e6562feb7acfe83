// Whether today's protos still speak with yesterday's programs: everything in api.lock is there and
// means the same. Additions pass; when a release is made they are locked too:
//
//   STRATA_UPDATE_LOCK=$PWD/proto/api.lock $(bazel info bazel-bin)/proto/compatibility_test
//
// which adds lines and removes none. To break an interface on purpose, delete its lines by hand.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/strata/v1/access.pb.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/agent_files.pb.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/records.pb.h"

namespace strata {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using Lines = std::set<std::string>;

std::string TypeOf(const FieldDescriptor& field) {
  if (field.is_map()) {
    return absl::StrCat("map<", TypeOf(*field.message_type()->map_key()), ",",
                        TypeOf(*field.message_type()->map_value()), ">");
  }
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->full_name();
  if (field.enum_type() != nullptr) type = field.enum_type()->full_name();
  return field.is_repeated() ? "repeated " + type : type;
}

void Add(const EnumDescriptor& type, Lines& lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    lines.insert(absl::StrCat("value ", type.full_name(), " ", type.value(i)->number(), " ",
                              type.value(i)->name()));
  }
}

void Add(const Descriptor& message, Lines& lines) {
  if (message.options().map_entry()) return;
  lines.insert(absl::StrCat("message ", message.full_name()));
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const auto* const oneof = field.real_containing_oneof();
    lines.insert(absl::StrCat("field ", message.full_name(), " ", field.number(), " ", field.name(),
                              " ", TypeOf(field), field.has_optional_keyword() ? " optional" : "",
                              oneof == nullptr ? "" : " in " + oneof->name()));
  }
  for (int i = 0; i < message.nested_type_count(); ++i) Add(*message.nested_type(i), lines);
  for (int i = 0; i < message.enum_type_count(); ++i) Add(*message.enum_type(i), lines);
}

void Add(const ServiceDescriptor& service, Lines& lines) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    lines.insert(absl::StrCat(
        "rpc ", method.full_name(), " ", method.client_streaming() ? "stream " : "",
        method.input_type()->full_name(), " -> ", method.server_streaming() ? "stream " : "",
        method.output_type()->full_name()));
  }
}

// The file and all of the package that it imports.
void Add(const FileDescriptor& file, std::set<const FileDescriptor*>& seen, Lines& lines) {
  if (file.package() != "strata.v1" || !seen.insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) Add(*file.dependency(i), seen, lines);
  for (int i = 0; i < file.message_type_count(); ++i) Add(*file.message_type(i), lines);
  for (int i = 0; i < file.enum_type_count(); ++i) Add(*file.enum_type(i), lines);
  for (int i = 0; i < file.service_count(); ++i) Add(*file.service(i), lines);
}

Lines Today() {
  Lines lines;
  std::set<const FileDescriptor*> seen;
  for (const Descriptor* const any :
       {v1::GetIdentityRequest::descriptor(), v1::AgentMessage::descriptor(),
        v1::HeldEpochRecord::descriptor(), v1::Node::descriptor(), v1::JobRecord::descriptor()}) {
    Add(*any->file(), seen, lines);
  }
  return lines;
}

Lines Locked(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.insert(line);
  }
  return lines;
}

std::vector<std::string> Missing(const Lines& locked, const Lines& today) {
  std::vector<std::string> missing;
  std::set_difference(locked.begin(), locked.end(), today.begin(), today.end(),
                      std::back_inserter(missing));
  return missing;
}

TEST(CompatibilityTest, WhatIsLockedIsThereAndMeansTheSame) {
  const char* const update = std::getenv("STRATA_UPDATE_LOCK");
  Lines locked = Locked(update == nullptr ? "proto/api.lock" : update);
  const Lines today = Today();
  for (const std::string& line : Missing(locked, today)) {
    ADD_FAILURE() << line
                  << ": programs of earlier releases rely on it. Bring it back (a new field gets a "
                     "new number and name), or delete the line from proto/api.lock";
  }
  if (update == nullptr || HasFailure()) return;
  locked.insert(today.begin(), today.end());
  std::ofstream file(update);
  file << "# What other programs rely on: see compatibility_test.cc.\n";
  for (const std::string& line : locked) file << line << "\n";
}

TEST(CompatibilityTest, ARemovedAMovedAndARetypedFieldAreFound) {
  const Lines today = Today();
  const std::string field = "field strata.v1.JobEpoch 2 epoch int64";
  ASSERT_TRUE(today.contains(field));
  for (const char* const changed :
       {"field strata.v1.JobEpoch 3 epoch int64", "field strata.v1.JobEpoch 2 epoch string",
        "field strata.v1.JobEpoch 2 attempt int64"}) {
    Lines other = today;
    other.erase(field);
    other.insert(changed);
    EXPECT_EQ(Missing(today, other), std::vector<std::string>{field});
  }
  Lines more = today;
  more.insert("field strata.v1.JobEpoch 99 more int64");
  EXPECT_TRUE(Missing(today, more).empty());
}

TEST(CompatibilityTest, MessagesEnumsAndMethodsOfAllFilesAreLocked) {
  const Lines today = Today();
  for (const char* const line :
       {"rpc strata.v1.JobService.WatchJobs strata.v1.WatchJobsRequest -> stream "
        "strata.v1.WatchJobsResponse",
        "value strata.v1.Job.State 3 RUNNING", "message strata.v1.TrainerTask",
        "field strata.v1.ProjectPolicy 3 quota map<string,int64>",
        "rpc strata.v1.AgentService.Session stream strata.v1.AgentMessage -> stream "
        "strata.v1.ControllerMessage"}) {
    EXPECT_TRUE(today.contains(line)) << line;
  }
}

}  // namespace
}  // namespace strata
