#include "data/file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::HasSubstr;

FileIdentity Identity(const std::string& path) {
  const absl::StatusOr<FileIdentity> identity = IdentifyFile(path);
  EXPECT_TRUE(identity.ok()) << identity.status();
  return identity.value_or(FileIdentity());
}

// The parts, counted from 0, in which two files of one size differ.
std::vector<int> Differing(const FileIdentity& a, const FileIdentity& b) {
  std::vector<int> parts;
  for (int part = 0; part < kFileParts; ++part) {
    const size_t at = static_cast<size_t>(part) * kDigitsPerPart;
    if (a.parts.compare(at, kDigitsPerPart, b.parts, at, kDigitsPerPart) != 0) {
      parts.push_back(part);
    }
  }
  return parts;
}

// A file of so many bytes, nearly all of them holes, with one byte that is set.
void WriteSparse(const std::string& path, int64_t bytes, int64_t set) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, bytes), 0);
  ASSERT_EQ(pwrite(file, "x", 1, set), 1);
  close(file);
}

TEST(FileIdentityTest, EqualContentHasTheSameIdentityWhereverItStands) {
  const TemporaryFolder folder;
  const FileIdentity identity = Identity(folder.Write("a", Counting(10'000)));
  EXPECT_EQ(identity.bytes, 10'000);
  EXPECT_EQ(identity.digest.size(), 32u);
  EXPECT_EQ(identity.parts.size(), static_cast<size_t>(kFileParts) * kDigitsPerPart);
  EXPECT_EQ(Identity(folder.Write("b", Counting(10'000))), identity);
}

TEST(FileIdentityTest, EveryByteOfAFileThatIsReadWholeCounts) {
  const TemporaryFolder folder;
  std::string text = Counting(1'000);
  const FileIdentity identity = Identity(folder.Write("a", text));
  for (size_t at = 0; at < text.size(); ++at) {
    text[at] ^= 1;
    const FileIdentity changed = Identity(folder.Write("a", text));
    text[at] ^= 1;
    EXPECT_NE(changed.digest, identity.digest) << at;
    // One part, the one that holds the byte (unless four digits happen to be the same).
    for (const int part : Differing(changed, identity)) {
      EXPECT_LE(1'000 * part / kFileParts, static_cast<int>(at));
      EXPECT_GT(1'000 * (part + 1) / kFileParts, static_cast<int>(at));
    }
  }
}

TEST(FileIdentityTest, FilesOfFewerBytesThanPartsHaveOne) {
  const TemporaryFolder folder;
  EXPECT_NE(Identity(folder.Write("a", "a")).digest, Identity(folder.Write("b", "b")).digest);
}

TEST(FileIdentityTest, OfALongFileSizeStartAndEndCount) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("long");
  const int64_t bytes = (int64_t{5} << 30) + 12'345;
  WriteSparse(path, bytes, bytes / 3);
  const FileIdentity identity = Identity(path);
  EXPECT_EQ(identity.bytes, bytes);
  for (const int64_t at : {int64_t{0}, int64_t{16'383}, bytes - 16'384, bytes - 1}) {
    WriteSparse(path, bytes, at);
    EXPECT_NE(Identity(path).digest, identity.digest) << at;
  }
  WriteSparse(path, bytes + 1, bytes / 3);
  EXPECT_NE(Identity(path).digest, identity.digest);
}

TEST(FileIdentityTest, CompanionsCountInTheDigest) {
  const TemporaryFolder folder;
  const std::string file = folder.Write("tokens.bin", "tokens");
  const std::string index = folder.Write("tokens.idx", "index");
  const FileIdentity identity = *IdentifyFile(file, {index});
  EXPECT_NE(identity.digest, Identity(file).digest);
  EXPECT_EQ(identity.bytes, 6);
  folder.Write("tokens.idx", "other");
  EXPECT_NE(IdentifyFile(file, {index})->digest, identity.digest);
  EXPECT_FALSE(IdentifyFile(file, {folder.Path("missing")}).ok());
}

TEST(FileIdentityTest, WhatIsNoFileIsRefusedByItsPath) {
  const TemporaryFolder folder;
  const absl::Status missing = IdentifyFile(folder.Path("missing")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/missing: "));
  EXPECT_EQ(IdentifyFile(folder.Path("")).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(IdentifyFile(folder.Path("pipe")).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::data
