// Damaged job files, made from a good one with fixed seeds: never a crash, every problem inside the
// file.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "spec/good_job.h"
#include "spec/job_file.h"
#include "spec/policy_file.h"
#include "spec/validate.h"

namespace strata::spec {
namespace {

const char* const kFragments[] = {":",           "- ",          "? ",
                                  "[",           "]",           "{",
                                  "}",           "\"",          "'",
                                  "|\n",         ">-\n",        "&a ",
                                  "*a",          "!x ",         "---\n",
                                  "...\n",       "%YAML 1.2\n", "#",
                                  "\t",          "\n",          "\r\n",
                                  "  ",          "~",           "null",
                                  "-1",          "1e999",       "99999999999999999999",
                                  ".nan",        "\xc3\xa9",    "\xff",
                                  "<<: ",        "\\",          ", ",
                                  "auto",        "@",           "`",
                                  "\xef\xbb\xbf"};

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string Mutate(std::string text) {
    const int edits = 1 + static_cast<int>(Below(6));
    for (int i = 0; i < edits; ++i) Edit(text);
    return text;
  }
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

 private:
  void Edit(std::string& text) {
    const size_t at = Below(text.size() + 1);
    const size_t length = std::min(Below(20), text.size() - at);
    switch (Below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kFragments[Below(std::size(kFragments))]);
        break;
      case 2:
        text.insert(Below(text.size() + 1), text.substr(at, length));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        if (at < text.size()) text.replace(at, 1, kFragments[Below(std::size(kFragments))]);
    }
  }

  std::mt19937 random_;
};

void CheckPlaces(const Problems& problems, const std::string& text, uint32_t seed) {
  std::vector<size_t> lengths = {0};
  for (const char c : text) {
    if (c == '\n') {
      lengths.push_back(0);
    } else {
      ++lengths.back();
    }
  }
  for (const Problem& problem : problems.Sorted()) {
    const Position& at = problem.position;
    if (at.in_set) continue;
    ASSERT_GE(at.line, 1) << seed;
    ASSERT_LE(static_cast<size_t>(at.line), lengths.size()) << seed << ": " << problems.ToString();
    ASSERT_GE(at.column, 1) << seed;
    ASSERT_LE(static_cast<size_t>(at.column), lengths[static_cast<size_t>(at.line) - 1] + 1)
        << seed << ": " << problems.ToString() << text;
    ASSERT_EQ(problem.what.find('\n'), std::string::npos) << seed;
  }
}

TEST(DamagedJobFile, IsReadOrRefusedInsideTheFile) {
  int refused = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Mutator mutator(seed);
    const std::string text = mutator.Mutate(GoodJob());
    Problems problems("job.yaml");
    const JobFile file = ReadJob(text, {}, problems);
    CheckSupported(file.job, file.positions, problems);
    CheckPlaces(problems, text, seed);
    if (HasFatalFailure()) return;
    refused += problems.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 2000);  // the damage is felt
  EXPECT_LT(refused, 4000);  // and some of it is harmless
}

TEST(DamagedSetting, NeverCrashes) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Mutator mutator(seed);
    ReadOptions options;
    options.settings = {mutator.Mutate("data.train[0]={path: text.txt, weight: 2}")};
    Problems problems("job.yaml");
    ReadJob(GoodJob(), options, problems);
    for (const Problem& problem : problems.Sorted()) ASSERT_GE(problem.position.column, 1);
  }
}

TEST(DamagedLayout, IsRefusedOrWrittenAsItWasRead) {
  int read = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Mutator mutator(seed);
    ReadOptions options;
    options.settings = {mutator.Mutate(
        "parallel={data: 2, shard: zero3, shard_group: 2, virtual_shards: off, pipeline: 2, "
        "stages: "
        "[1, 1], micro_order: layer_first, recompute: {save: [qkv, gate_up], layers: 0-1}}")};
    Problems problems("job.yaml");
    const JobFile file = ReadJob(GoodJob(), options, problems);
    CheckSupported(file.job, file.positions, problems);
    Problems again("job.yaml");
    const std::string text = WriteJob(file.job);
    const JobFile back = ReadJob(text, {}, again);
    if (problems.empty()) {
      ASSERT_EQ(WriteJob(back.job), text) << options.settings[0];
    }
    read += again.empty() ? 1 : 0;
  }
  EXPECT_GT(read, 100);
}

TEST(DamagedPolicyFile, IsReadOrRefusedInsideTheFile) {
  const std::string good = R"(projects:
  - {name: nlp, description: language models, quota: {h100: 64, "*": 128}}
  - name: vision
queues:
  - {name: urgent, priority: 10, max_devices: 16}
scheduling:
  min_run_seconds: 30
  defragment: true
)";
  int refused = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    Mutator mutator(seed);
    const std::string text = mutator.Mutate(good);
    Problems problems("policy.yaml");
    ReadPolicy(text, problems);
    CheckPlaces(problems, text, seed);
    if (HasFatalFailure()) return;
    refused += problems.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
  EXPECT_LT(refused, 1000);
}

TEST(RandomBytes, NeverCrash) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Mutator mutator(seed);
    std::string text;
    while (mutator.Below(60) != 0) {
      text += mutator.Below(3) == 0 ? std::string(1, static_cast<char>(mutator.Below(128)))
                                    : kFragments[mutator.Below(std::size(kFragments))];
    }
    Problems problems("job.yaml");
    ReadJob(text, {}, problems);
    CheckPlaces(problems, text, seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace strata::spec
