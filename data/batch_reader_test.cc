#include "data/batch_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <numeric>

#include "common/check.h"
#include "common/units.h"
#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

// Counts what the whole program allocates through operator new.
void* operator new(size_t size) {
  allocations.fetch_add(1);
  void* const memory = std::malloc(size);
  STRATA_CHECK(memory != nullptr);
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {  // of std::stable_sort
  allocations.fetch_add(1);
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace strata::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Corpus Open(const CorpusSpec& spec) {
  absl::StatusOr<Corpus> corpus = OpenCorpus(spec, nullptr);
  EXPECT_TRUE(corpus.ok()) << corpus.status();
  return *std::move(corpus);
}

// "VmRSS" and the like, in bytes.
int64_t ProcessMemory(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string name;
  int64_t kib = 0;
  while (status >> name) {
    if (name == field + ":" && status >> kib) return kib * common::kKiB;
    status.ignore(1000, '\n');
  }
  return -1;
}

TEST(BatchReaderTest, ReadWindow_FirstAndLast_TargetsAreOneFurther) {
  const TemporaryFolder folder;
  const std::string text =
      "\xff"
      "bcdefghijklm";  // 13 bytes: three windows of four
  const Corpus corpus = Open({{{folder.Write("t", text), 1}}, "", 0, 4});
  BatchReader reader(corpus.train);
  int32_t tokens[4], targets[4];
  ASSERT_TRUE(reader.ReadWindow({0, 0}, tokens, targets).ok());
  EXPECT_THAT(tokens, ElementsAre(255, 'b', 'c', 'd'));
  EXPECT_THAT(targets, ElementsAre('b', 'c', 'd', 'e'));
  ASSERT_TRUE(reader.ReadWindow({0, 2}, tokens, targets).ok());
  EXPECT_THAT(tokens, ElementsAre('i', 'j', 'k', 'l'));
  EXPECT_THAT(targets, ElementsAre('j', 'k', 'l', 'm'));
}

TEST(BatchReaderTest, ReadWindow_ValidationByFraction_NeverOverlapsTraining) {
  const TemporaryFolder folder;
  const std::string text = Counting(41);
  const Corpus corpus = Open({{{folder.Write("t", text), 1}}, "", 0.3, 4});
  BatchReader train(corpus.train), validation(corpus.validation);
  ASSERT_EQ(corpus.train.windows(), 7);
  ASSERT_EQ(corpus.validation.windows(), 3);
  int32_t tokens[4], targets[4];
  for (int64_t w = 0; w < 10; ++w) {
    ASSERT_TRUE((w < 7 ? train.ReadWindow({0, w}, tokens, targets)
                       : validation.ReadWindow({0, w - 7}, tokens, targets))
                    .ok());
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(tokens[i], static_cast<unsigned char>(text[static_cast<size_t>(4 * w + i)]));
      EXPECT_EQ(targets[i], static_cast<unsigned char>(text[static_cast<size_t>(4 * w + i + 1)]));
    }
  }
}

TEST(BatchReaderTest, ReadBatch_FromTheMiddle_EqualsThePartOfALargerBatch) {
  const TemporaryFolder folder;
  const Corpus corpus = Open(
      {{{folder.Write("a", Counting(100)), 1}, {folder.Write("b", Counting(60)), 2}}, "", 0, 4});
  const Sampler sampler(corpus.train, 5, true);
  BatchReader whole(corpus.train), part(corpus.train);
  std::vector<int32_t> all(2 * 32 * 4), some(2 * 8 * 4);
  ASSERT_TRUE(whole.ReadBatch(sampler, 0, 32, all.data(), all.data() + 32 * 4).ok());
  ASSERT_TRUE(part.ReadBatch(sampler, 17, 8, some.data(), some.data() + 8 * 4).ok());
  for (size_t i = 0; i < 8 * 4; ++i) {
    EXPECT_EQ(some[i], all[17 * 4 + i]);
    EXPECT_EQ(some[8 * 4 + i], all[(32 + 17) * 4 + i]);
  }
}

TEST(BatchReaderTest, ReadWindow_FileCutWhileOpen_IsDataLoss) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("t", Counting(100));
  const Corpus corpus = Open({{{path, 1}}, "", 0, 4});
  BatchReader reader(corpus.train);
  ASSERT_EQ(truncate(path.c_str(), 50), 0);
  int32_t tokens[4], targets[4];
  EXPECT_TRUE(reader.ReadWindow({0, 3}, tokens, targets).ok());
  const absl::Status status = reader.ReadWindow({0, 20}, tokens, targets);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("become shorter"));
}

TEST(BatchReaderTest, ReadBatch_FileLargerThanMemoryWouldLike_StaysSmall) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("big", "");
  const int64_t size = 5 * common::kGiB;
  ASSERT_EQ(truncate(path.c_str(), size), 0);  // sparse
  const int descriptor = open(path.c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(descriptor, "end", 3, size - 3), 3);
  close(descriptor);
  const Corpus corpus = Open({{{path, 1}}, "", 0, 256});
  const int64_t last = corpus.train.windows() - 1;
  ASSERT_EQ(last, (size - 1) / 256 - 1);
  const Sampler sampler(corpus.train, 1, true);
  BatchReader reader(corpus.train);
  std::vector<int32_t> tokens(64 * 256), targets(64 * 256);
  const int64_t before = ProcessMemory("VmRSS");
  for (int64_t i = 0; i < 2000; i += 64) {
    ASSERT_TRUE(reader.ReadBatch(sampler, i, 64, tokens.data(), targets.data()).ok());
    EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), 0), 0);
  }
  ASSERT_TRUE(reader.ReadWindow({0, last}, tokens.data(), targets.data()).ok());
  // (size - 1) is 255 modulo 256: the last window ends 255 tokens before the last one.
  const Corpus exact = Open({{{path, 1}}, "", 0, 1});
  BatchReader pairs(exact.train);
  ASSERT_TRUE(pairs.ReadWindow({0, size - 2}, tokens.data(), targets.data()).ok());
  EXPECT_EQ(tokens[0], 'n');
  EXPECT_EQ(targets[0], 'd');
  EXPECT_LT(ProcessMemory("VmRSS") - before, 8 * common::kMiB);
}

TEST(BatchReaderTest, ReadBatch_AfterConstruction_AllocatesNothing) {
  const TemporaryFolder folder;
  const Corpus corpus = Open(
      {{{folder.Write("a", Counting(100)), 1}, {folder.Write("b", Counting(60)), 2}}, "", 0, 4});
  const Sampler sampler(corpus.train, 5, true);
  BatchReader reader(corpus.train);
  std::vector<int32_t> tokens(8 * 4), targets(8 * 4);
  const int64_t before = allocations.load();
  bool ok = true;
  for (int64_t i = 0; i < 100; ++i) {
    ok &= reader.ReadBatch(sampler, i, 8, tokens.data(), targets.data()).ok();
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace strata::data
