#include "data/prepare/document_reader.h"

#include <zlib.h>
#include <zstd.h>

#include <vector>

#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Cuts = DocumentReader::Cuts;

std::string Gzip(const std::string& text) {
  z_stream state = {};
  EXPECT_EQ(deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - state.avail_out);
  deflateEnd(&state);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// All pieces, and the position after each.
struct AllPieces {
  std::vector<Piece> pieces;
  std::vector<ReaderPosition> after;
  absl::Status status;
};

AllPieces ReadAll(const std::string& path, Cuts cuts, const ReaderPosition& at = {}) {
  AllPieces all;
  auto reader = DocumentReader::Open(path, cuts, at);
  all.status = reader.status();
  while (all.status.ok()) {
    auto piece = (*reader)->Next();
    all.status = piece.status();
    if (!piece.ok() || !piece->has_value()) break;
    all.pieces.push_back(**std::move(piece));
    all.after.push_back((*reader)->position());
  }
  return all;
}

std::string Joined(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.bytes;
  return text;
}

std::string Lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i * 7919LL) + ".\n";
  return text;
}

class DocumentReaderTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
};

TEST_F(DocumentReaderTest, Lines_OfAnyKind_AreNumberedAndBlankOnesLeftOut) {
  const auto all = ReadAll(folder_.Write("a.jsonl", "one\r\n\n  \t\ntwo\n\nthree"), Cuts::kLines);
  ASSERT_TRUE(all.status.ok()) << all.status;
  ASSERT_EQ(all.pieces.size(), 3u);
  EXPECT_EQ(all.pieces[0].bytes, "one\r");
  EXPECT_EQ(all.pieces[1].bytes, "two");
  EXPECT_EQ(all.pieces[1].line, 4);
  EXPECT_EQ(all.pieces[2].bytes, "three");
  EXPECT_EQ(all.pieces[2].line, 6);
  EXPECT_EQ(all.after[2].documents, 3);
}

TEST_F(DocumentReaderTest, Lines_GoneOnWithAfterAnyPiece_AreTheSame) {
  const std::string path = folder_.Write("a.jsonl", Lines(30));
  const auto whole = ReadAll(path, Cuts::kLines);
  for (size_t cut = 0; cut < whole.after.size(); ++cut) {
    const auto rest = ReadAll(path, Cuts::kLines, whole.after[cut]);
    ASSERT_EQ(rest.pieces.size(), whole.pieces.size() - cut - 1);
    for (size_t i = 0; i < rest.pieces.size(); ++i) {
      EXPECT_EQ(rest.pieces[i].bytes, whole.pieces[cut + 1 + i].bytes);
      EXPECT_EQ(rest.pieces[i].line, whole.pieces[cut + 1 + i].line);
    }
  }
}

TEST_F(DocumentReaderTest, Lines_LongerThanAllowed_NamesTheLine) {
  const std::string path =
      folder_.Write("a.jsonl", "short\n" + std::string(kMostLineBytes + 1, 'x') + "\n");
  const auto all = ReadAll(path, Cuts::kLines);
  EXPECT_EQ(all.pieces.size(), 1u);
  EXPECT_THAT(std::string(all.status.message()), HasSubstr(path + ":2: is longer than"));
}

TEST_F(DocumentReaderTest, Text_InPieces_IsOneDocument) {
  const std::string text = Lines(100000);
  const std::string path = folder_.Write("a.txt", text);
  for (const Cuts cuts : {Cuts::kAnywhere, Cuts::kSafely, Cuts::kNever}) {
    const auto all = ReadAll(path, cuts);
    ASSERT_TRUE(all.status.ok());
    EXPECT_EQ(Joined(all.pieces), text);
    if (cuts == Cuts::kNever) {
      EXPECT_EQ(all.pieces.size(), 1u);
    } else {
      EXPECT_GT(all.pieces.size(), 4u);
    }
    for (size_t i = 0; i < all.pieces.size(); ++i) {
      EXPECT_EQ(all.pieces[i].ends_document, i + 1 == all.pieces.size());
      EXPECT_TRUE(cuts != Cuts::kSafely || all.pieces[i].bytes.back() == '\n');
      EXPECT_EQ(Joined(ReadAll(path, cuts, all.after[i]).pieces),
                text.substr(static_cast<size_t>(all.after[i].offset)));
    }
  }
}

TEST_F(DocumentReaderTest, Text_OfExactlyOnePiece_EndsWithIt) {
  for (const int size : {1, 262143, 262144, 262145, 524288}) {
    const auto all = ReadAll(folder_.Write("a.txt", std::string(size, 'x')), Cuts::kAnywhere);
    ASSERT_TRUE(all.status.ok());
    EXPECT_EQ(Joined(all.pieces).size(), static_cast<size_t>(size));
    EXPECT_TRUE(all.pieces.back().ends_document);
    EXPECT_FALSE(all.pieces.back().bytes.empty());
  }
}

TEST_F(DocumentReaderTest, Compressed_SeveralStreams_AreTheWholeText) {
  const std::string one = Lines(20000), two = Lines(30000);
  const std::pair<std::string, std::string> files[] = {{"a.txt.gz", Gzip(one) + Gzip(two)},
                                                       {"a.txt.zst", Zstd(one) + Zstd(two)}};
  for (const auto& [name, bytes] : files) {
    const std::string path = folder_.Write(name, bytes);
    const auto all = ReadAll(path, Cuts::kLines);
    ASSERT_TRUE(all.status.ok()) << all.status;
    EXPECT_EQ(all.pieces.size(), 50000u);
    const auto rest = ReadAll(path, Cuts::kLines, all.after[30000]);
    EXPECT_EQ(rest.pieces.front().bytes, all.pieces[30001].bytes);
  }
}

TEST_F(DocumentReaderTest, Compressed_Damaged_IsRefusedByName) {
  for (const std::string& whole : {Gzip(Lines(20000)), Zstd(Lines(20000))}) {
    const std::string cut = folder_.Write("a.gz", whole.substr(0, whole.size() / 2));
    EXPECT_THAT(std::string(ReadAll(cut, Cuts::kLines).status.message()),
                ::testing::AllOf(HasSubstr(cut), HasSubstr("cut short")));
    std::string damaged = whole;
    for (size_t i = damaged.size() / 3; i < damaged.size() / 3 + 50; ++i) damaged[i] ^= 0x55;
    EXPECT_FALSE(ReadAll(folder_.Write("b.gz", damaged), Cuts::kLines).status.ok());
    EXPECT_FALSE(ReadAll(folder_.Write("c.gz", whole + "rubbish"), Cuts::kLines).status.ok());
  }
}

}  // namespace
}  // namespace strata::data
