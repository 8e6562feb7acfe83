// Keys of memory tiers, and of policies that depend on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "spec/defaults.h"
#include "spec/good_job.h"
#include "spec/job_file.h"
#include "spec/memory_text.h"
#include "spec/validate.h"

namespace strata::spec {
namespace {

using testing::HasSubstr;

struct Outcome {
  JobFile file;
  std::string told;
};

Outcome ReadSet(std::vector<std::string> settings) {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = std::move(settings);
  Outcome outcome{ReadJob(GoodJob(), options, problems), ""};
  outcome.told = problems.ToString();
  return outcome;
}

constexpr char kTiers[] =
    "memory={device: 2GiB, host: 1048576, ssd: [{path: /scratch, size: 10GB}], place: {parameters: "
    "host, optimizer: {device: 0.25, ssd: 0.75}}, stream: {resident: 3}}";

TEST(Memory, IsReadWithItsUnitsAndDefaults) {
  const Outcome read = ReadSet({kTiers});
  ASSERT_EQ(read.told, "");
  const strata::v1::MemorySpec& memory = read.file.job.memory();
  EXPECT_EQ(memory.device(), int64_t{2} << 30);
  EXPECT_EQ(memory.host(), 1 << 20);
  EXPECT_EQ(memory.ssd(0).size(), 10'000'000'000);
  EXPECT_EQ(memory.place().parameters().host(), 1);
  EXPECT_EQ(memory.place().gradients().device(), 1);
  EXPECT_EQ(memory.place().optimizer().ssd(), 0.75);
  EXPECT_EQ(memory.stream().moved(), 1);
  EXPECT_TRUE(ReadSet({"memory={device: 1GiB}"}).file.job.memory().stream().automatic());
  EXPECT_FALSE(ReadSet({}).file.job.has_memory());
}

TEST(Memory, PlacesLeftOpenBesideLimits_AreWrittenAsTheyWereRead) {
  const Outcome read = ReadSet({"memory={device: 2GiB, place: auto}"});
  ASSERT_EQ(read.told, "");
  strata::v1::JobSpec job = read.file.job;
  EXPECT_TRUE(job.memory().place().automatic());
  EXPECT_FALSE(job.memory().place().has_parameters());
  EXPECT_THAT(WriteJob(job), HasSubstr("place: auto"));
  Problems problems("job.yaml");
  CheckSupported(job, read.file.positions, problems);
  EXPECT_THAT(problems.ToString(), HasSubstr("memory.place: auto is"));
  ClosePlaces(job);
  EXPECT_EQ(job.memory().place().optimizer().device(), 1);
  EXPECT_EQ(job.memory().device(), int64_t{2} << 30);
  EXPECT_THAT(ReadSet({"memory.place={automatic: true}"}).told, HasSubstr("unknown field"));
}

TEST(Memory, WhatCannotBeIsRefusedAtItsKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"{place: {optimizer: ssd}}", "memory.place.optimizer: has bytes on ssd"},
      {"{place: {optimizer: {device: 0.4, host: 0.5}}}", "fractions sum to 0.9, not to 1"},
      {"{place: {optimizer: {device: 1.5, host: -0.5}}}", "not 1.5"},
      {"{place: {parameters: tape}}",
       "unknown tier tape (the tiers are device, host, ssd, unified)"},
      {"{device: plenty}", "memory.device: must be a size such as 64GiB: plenty"},
      {"{device: 0}", "memory.device: must be at least 1, not 0"},
      {"{ssd: [{path: /a}]}", "memory.ssd[0]: size is missing"},
      {"{ssd: [{path: /a, size: 1MiB}, {path: /a, size: 1MiB}]}", "is that of memory.ssd[0]"},
      {"{stream: {resident: 1, moved: 2}}", "memory.stream.moved: 2 layers are moved at once"},
      {"{stream: {moved: 2}}", "memory.stream: resident is missing"},
  };
  for (const auto& [memory, says] : cases) {
    EXPECT_THAT(ReadSet({absl::StrCat("memory=", memory)}).told, HasSubstr(says)) << memory;
  }
  EXPECT_THAT(ReadSet({"parallel.update_policy=spooled"}).told,
              HasSubstr("parallel.update_policy: spooled gradients wait on host or ssd"));
  EXPECT_THAT(ReadSet({"parallel.spool=bf16"}).told,
              HasSubstr("parallel.spool: nothing is spooled"));
}

TEST(Memory, UnifiedIsATierOfGpus) {
  const std::vector<std::string> gpu = {"resources.device=gpu",
                                        "memory={place: {parameters: unified, optimizer: {device: "
                                        "0.25, unified: 0.75}}}"};
  const Outcome read = ReadSet(gpu);
  ASSERT_EQ(read.told, "");
  const strata::v1::PlaceSpec& place = read.file.job.memory().place();
  EXPECT_EQ(place.parameters().unified(), 1);
  EXPECT_FALSE(place.parameters().has_device());
  EXPECT_EQ(place.optimizer().unified(), 0.75);
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{gpu[1], "resources.device=cpu"},
       "memory.place.parameters: unified memory is a GPU's, and the job computes on the CPU"},
      {{gpu[0], "memory={place: {gradients: unified}}"},
       "memory.place.gradients: gradients have no place in unified memory"},
      {{gpu[0], gpu[1], "parallel.update_policy=speculative"},
       "memory.place.optimizer: speculative updates keep two versions"},
      {{gpu[0], "memory={place: {parameters: unified, optimizer: host}}"},
       "memory.place.parameters: the device updates parameters in unified memory"},
      {{gpu[0], gpu[1], "parallel.shard=zero1"},
       "memory.place.parameters: parameters in unified memory are whole on every rank"},
  };
  for (const auto& [settings, says] : cases) {
    EXPECT_THAT(ReadSet(settings).told, HasSubstr(says)) << says;
  }
}

// As a command's flag gives it.
TEST(Memory, IsReadAsATextOfItsOwn) {
  Problems problems("--memory");
  const strata::v1::MemorySpec memory =
      ReadMemory("{device: 1GiB, place: {parameters: host}}", problems);
  EXPECT_EQ(problems.ToString(), "");
  EXPECT_EQ(memory.place().parameters().host(), 1);
  EXPECT_EQ(memory.place().optimizer().device(), 1);
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"{devise: 1GiB}", "--memory:1:2: memory.devise: unknown field — did you mean device?"},
           {"{place: {parameters: ssd}}",
            "--memory:1:10: memory.place.parameters: has bytes on ssd"},
           {"auto", "--memory:1:1: memory: auto is not supported yet"},
           {"{place: auto}", "--memory:1:2: memory.place: auto is not supported yet"},
           {"{", "--memory:1:"}}) {
    Problems found("--memory");
    ReadMemory(text, found);
    EXPECT_THAT(found.ToString(), HasSubstr(says)) << text;
  }
}

}  // namespace
}  // namespace strata::spec
