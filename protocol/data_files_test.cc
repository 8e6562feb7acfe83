#include "protocol/data_files.h"

#include <gtest/gtest.h>

namespace strata::protocol {
namespace {

v1::DataFile File(const std::string& path, int64_t bytes, const std::string& digest,
                  const std::string& parts = "") {
  v1::DataFile file;
  file.set_path(path);
  file.set_bytes(bytes);
  file.set_digest(digest);
  file.set_parts(parts);
  return file;
}

DataFiles Files(const std::vector<v1::DataFile>& files) { return {files.begin(), files.end()}; }

TEST(DataFilesTest, TheSameContentAtAnotherPlaceIsNoChange) {
  EXPECT_EQ(ChangeOf(Files({File("/a", 10, "d")}), Files({File("/b", 10, "d")})), "");
}

TEST(DataFilesTest, AnotherSizeIsToldWithBoth) {
  EXPECT_EQ(ChangeOf(Files({File("/a", 10, "d")}), Files({File("/b", 12, "e")})),
            "/b: its size went from 10 to 12 bytes");
}

TEST(DataFilesTest, AnotherContentIsToldWithItsPlace) {
  EXPECT_EQ(ChangeOf(File("/a", 8192, "d", "0123456789ab"), File("/a", 8192, "e", "0123456709ab")),
            "its content differs from about byte 5461 of 8192 on");
}

TEST(DataFilesTest, WithoutPartsOrWithEqualOnesThePlaceIsNotTold) {
  const char* const told = "its content differs, in as many bytes (9)";
  EXPECT_EQ(ChangeOf(File("/a", 9, "d"), File("/a", 9, "e")), told);
  EXPECT_EQ(ChangeOf(File("/a", 9, "d", "0123"), File("/a", 9, "e", "0123")), told);
  EXPECT_EQ(ChangeOf(File("/a", 9, "d", "01"), File("/a", 9, "e", "012345")), told);
}

TEST(DataFilesTest, TheFirstOfSeveralIsNamed) {
  const DataFiles were = Files({File("/a", 1, "a"), File("/b", 2, "b"), File("/c", 3, "c")});
  EXPECT_EQ(ChangeOf(were, Files({File("/a", 1, "a"), File("/b", 3, "x"), File("/c", 4, "y")})),
            "/b: its size went from 2 to 3 bytes");
  EXPECT_EQ(ChangeOf(were, Files({File("/a", 1, "a")})), "there are 1 data files, there were 3");
}

}  // namespace
}  // namespace strata::protocol
