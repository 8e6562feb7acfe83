#include "data/packing.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "data/batch_reader.h"
#include "data/corpus.h"
#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Split PackedSplit(std::shared_ptr<const TokenSource> tokens, int64_t sequence) {
  const std::vector<int64_t> ends = *tokens->DocumentEnds();
  auto packing = std::make_shared<const Packing>(ends, 0, tokens->tokens(), sequence);
  Split split;
  split.sequence = sequence;
  split.sources.push_back({std::move(tokens), 0, packing->windows(), 1, packing});
  return split;
}

std::vector<Packing::Piece> PiecesOf(const Packing& packing, int64_t window) {
  std::vector<Packing::Piece> pieces;
  const Packing::Pieces of = packing.Of(window);
  for (int64_t i = 0; i < of.size(); ++i) pieces.push_back(of[i]);
  return pieces;
}

TEST(PackingTest, FewDocuments_FillWindowsBestFitFirst) {
  // Rows: 5, 3, 1, 4, none, 1; of 8 there are two bins: 5 + 3 and 4 + 1 + 1.
  const std::vector<int64_t> ends = {6, 10, 12, 17, 18, 20};
  const Packing packing(ends, 0, 20, 8);
  ASSERT_EQ(packing.windows(), 2);
  using Piece = Packing::Piece;
  EXPECT_THAT(PiecesOf(packing, 0), ElementsAre(Piece{0, 5}, Piece{6, 3}));
  EXPECT_THAT(PiecesOf(packing, 1), ElementsAre(Piece{10, 1}, Piece{12, 4}, Piece{18, 1}));
}

TEST(PackingTest, LongDocument_IsCutIntoWholeWindowsAndARest) {
  const std::vector<int64_t> ends = {2, 15};  // 1 and 12 rows
  const Packing packing(ends, 0, 15, 5);
  ASSERT_EQ(packing.windows(), 3);
  using Piece = Packing::Piece;
  EXPECT_THAT(PiecesOf(packing, 0), ElementsAre(Piece{2, 5}));
  EXPECT_THAT(PiecesOf(packing, 1), ElementsAre(Piece{7, 5}));
  EXPECT_THAT(PiecesOf(packing, 2), ElementsAre(Piece{0, 1}, Piece{12, 2}));
}

TEST(PackingTest, PartOfTheTokens_CutsDocumentsAtItsEnds) {
  const std::vector<int64_t> ends = {10, 20, 30};
  const Packing packing(ends, 5, 23, 100);
  ASSERT_EQ(packing.windows(), 1);
  using Piece = Packing::Piece;
  EXPECT_THAT(PiecesOf(packing, 0), ElementsAre(Piece{5, 4}, Piece{10, 9}, Piece{20, 2}));
}

TEST(PackingTest, OneHugeDocument_KeepsNoMoreThanASmallOne) {
  const int64_t tokens = int64_t{1} << 50;
  const std::vector<int64_t> ends = {tokens};
  const Packing packing(ends, 0, tokens, 256);
  EXPECT_EQ(packing.windows(), tokens / 256);
  using Piece = Packing::Piece;
  EXPECT_THAT(PiecesOf(packing, 12345), ElementsAre(Piece{12345 * 256, 256}));
  EXPECT_THAT(PiecesOf(packing, packing.windows() - 1), ElementsAre(Piece{tokens - 256, 255}));
}

TEST(PackingTest, NothingToPredict_HasNoWindows) {
  const std::vector<int64_t> ends = {1, 2, 3};
  EXPECT_EQ(Packing(ends, 0, 3, 4).windows(), 0);
  EXPECT_EQ(Packing({}, 0, 0, 4).windows(), 0);
}

// Every token that has one before it in its document is a target once; what a window holds is
// inside one document piece by piece; and the windows are full but for a few.
TEST(PackingTest, RandomDocuments_TrainEveryTokenOnce) {
  struct {
    int64_t documents, sequence;
    uint64_t long_share;
  } const cases[] = {{1, 1, 0},     {50, 1, 50},     {300, 7, 20},     {1000, 64, 5},
                     {2000, 33, 0}, {500, 128, 100}, {200'000, 16, 3}, {150'000, 4, 40}};
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const auto& c : cases) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " documents " << c.documents
                                        << " sequence " << c.sequence);
      const std::vector<int64_t> lengths =
          RandomLengths(seed, c.documents, c.sequence, c.long_share);
      const Split split = PackedSplit(std::make_shared<GivenTokens>(lengths), c.sequence);
      const int64_t tokens = split.sources[0].tokens->tokens();
      std::vector<int64_t> document_of;
      for (size_t d = 0; d < lengths.size(); ++d) {
        document_of.insert(document_of.end(), static_cast<size_t>(lengths[d]),
                           static_cast<int64_t>(d));
      }
      BatchReader reader(split);
      std::vector<int32_t> read(static_cast<size_t>(c.sequence)), targets = read, positions = read;
      std::vector<int> trained(static_cast<size_t>(tokens));
      int64_t rows = 0;
      for (int64_t w = 0; w < split.windows(); ++w) {
        ASSERT_TRUE(reader.ReadWindow({0, w}, read.data(), targets.data(), positions.data()).ok());
        for (size_t i = 0; i < read.size(); ++i) {
          if (targets[i] < 0) {
            ASSERT_TRUE(read[i] == 0 && positions[i] == 0);
            continue;
          }
          ++rows;
          ++trained[static_cast<size_t>(targets[i])];
          const auto token = static_cast<size_t>(read[i]);
          ASSERT_EQ(targets[i], read[i] + 1);
          ASSERT_EQ(document_of[token], document_of[token + 1]);
          ASSERT_TRUE(positions[i] == 0 ||
                      (read[i - 1] == read[i] - 1 && positions[i - 1] == positions[i] - 1));
        }
      }
      for (size_t t = 0; t < trained.size(); ++t) {
        const bool first = t == 0 || document_of[t] != document_of[t - 1];
        ASSERT_EQ(trained[t], first ? 0 : 1) << t;
      }
      // Best fit decreasing leaves little, and a group's last windows.
      const int64_t needed = (rows + c.sequence - 1) / c.sequence;
      EXPECT_LE(split.windows(), needed + needed / 50 + 2);
    }
  }
}

TEST(PackingTest, SameDocuments_GiveTheSameWindows) {
  const std::vector<int64_t> lengths = RandomLengths(9, 5000, 50, 10);
  const GivenTokens tokens(lengths);
  const std::vector<int64_t> ends = *tokens.DocumentEnds();
  const Packing one(ends, 0, tokens.tokens(), 50), other(ends, 0, tokens.tokens(), 50);
  ASSERT_EQ(one.windows(), other.windows());
  for (int64_t w = 0; w < one.windows(); ++w) EXPECT_EQ(PiecesOf(one, w), PiecesOf(other, w));
}

TEST(PackingTest, ReadWindow_Masked_LeavesOutWhatTheMaskDoes) {
  const std::vector<bool> trained = {true, false, true, true, true, false, true};
  const Split split =
      PackedSplit(std::make_shared<GivenTokens>(std::vector<int64_t>{3, 4}, trained), 8);
  ASSERT_EQ(split.windows(), 1);
  BatchReader reader(split);
  int32_t tokens[8], targets[8], positions[8];
  ASSERT_TRUE(reader.ReadWindow({0, 0}, tokens, targets, positions).ok());
  EXPECT_THAT(tokens, ElementsAre(0, 1, 3, 4, 5, 0, 0, 0));
  EXPECT_THAT(targets, ElementsAre(-1, 2, 4, -1, 6, -1, -1, -1));
  EXPECT_THAT(positions, ElementsAre(0, 1, 0, 1, 2, 0, 0, 0));
}

CorpusSpec PackedSpec(const std::string& path, int64_t sequence, double fraction = 0) {
  CorpusSpec spec;
  spec.train = {{path, 1}};
  spec.sequence = sequence;
  spec.validation_fraction = fraction;
  spec.packing = true;
  return spec;
}

// Plain text is one document: the windows of text that is not packed, and a last one that is not
// full.
TEST(PackedCorpusTest, Text_IsOneDocument) {
  const TemporaryFolder folder;
  const auto corpus = OpenCorpus(PackedSpec(folder.Write("t", Counting(11)), 4), nullptr);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  ASSERT_EQ(corpus->train.windows(), 3);
  BatchReader reader(corpus->train);
  int32_t tokens[4], targets[4], positions[4];
  ASSERT_TRUE(reader.ReadWindow({0, 2}, tokens, targets, positions).ok());
  const std::string text = Counting(11);
  EXPECT_EQ(tokens[1], static_cast<unsigned char>(text[9]));
  EXPECT_EQ(targets[1], static_cast<unsigned char>(text[10]));
  EXPECT_THAT(positions, ElementsAre(0, 1, 0, 0));
  EXPECT_EQ(targets[2], -1);
}

TEST(PackedCorpusTest, Fraction_HoldsBackTheLastTokens) {
  const TemporaryFolder folder;
  const auto corpus = OpenCorpus(PackedSpec(folder.Write("t", Counting(101)), 4, 0.2), nullptr);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->train.windows(), 20);      // tokens 0 to 79
  EXPECT_EQ(corpus->validation.windows(), 5);  // tokens 80 to 100: 20 rows
  BatchReader reader(corpus->validation);
  int32_t tokens[4], targets[4];
  ASSERT_TRUE(reader.ReadWindow({0, 0}, tokens, targets).ok());
  EXPECT_EQ(tokens[0], static_cast<unsigned char>(Counting(101)[80]));
}

TEST(PackedCorpusTest, NothingToTrainOn_IsRefused) {
  const TemporaryFolder folder;
  const std::string one = folder.Write("one", "x"), few = folder.Write("few", "xyz");
  EXPECT_THAT(std::string(OpenCorpus(PackedSpec(one, 4), nullptr).status().message()),
              HasSubstr("one: bytes 0 to 1 hold no document of two bytes"));
  EXPECT_THAT(std::string(OpenCorpus(PackedSpec(few, 4, 0.5), nullptr).status().message()),
              HasSubstr("few: bytes 0 to 0 hold no document of two bytes"));
  EXPECT_THAT(
      std::string(OpenCorpus(PackedSpec(few, int64_t{1} << 31), nullptr).status().message()),
      HasSubstr("sequence: "));
}

}  // namespace
}  // namespace strata::data
