#include "controller/logic/job_record.h"

#include <gtest/gtest.h>

#include "google/protobuf/descriptor.h"

namespace strata::controller {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

TEST(JobRecordTest, EveryFieldOfAJobIsTheSameFieldOfTheRecord) {
  const Descriptor& record = *v1::JobRecord::descriptor();
  const Descriptor& job = *v1::Job::descriptor();
  for (int i = 0; i < job.field_count(); ++i) {
    const FieldDescriptor& shown = *job.field(i);
    const FieldDescriptor* const kept = record.FindFieldByNumber(shown.number());
    ASSERT_NE(kept, nullptr) << shown.name();
    EXPECT_EQ(kept->name(), shown.name());
    EXPECT_EQ(kept->type(), shown.type()) << shown.name();
    EXPECT_EQ(kept->label(), shown.label()) << shown.name();
    EXPECT_EQ(kept->message_type(), shown.message_type()) << shown.name();
    EXPECT_EQ(kept->enum_type(), shown.enum_type()) << shown.name();
  }
}

TEST(JobRecordTest, WhatOnlyTheLogicNeedsIsReservedInAJob) {
  const Descriptor& record = *v1::JobRecord::descriptor();
  const Descriptor& job = *v1::Job::descriptor();
  for (int i = 0; i < record.field_count(); ++i) {
    const FieldDescriptor& kept = *record.field(i);
    if (job.FindFieldByNumber(kept.number()) != nullptr) continue;
    EXPECT_TRUE(job.IsReservedNumber(kept.number())) << kept.name();
    EXPECT_TRUE(job.IsReservedName(kept.name())) << kept.name();
  }
}

TEST(JobRecordTest, AJobShowsTheRecordWithoutTheLogicsOwn) {
  v1::JobRecord record;
  record.set_name("jobs/a");
  record.set_request_id("hidden");
  record.set_resource_version(7);
  const v1::Job job = ToJob(record);
  EXPECT_EQ(job.name(), "jobs/a");
  EXPECT_EQ(job.etag(), "\"7\"");
  EXPECT_EQ(job.SerializeAsString().find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace strata::controller
