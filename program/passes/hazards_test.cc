#include "program/passes/hazards.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/testing/random_program.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Every byte remembers its last writer and, per stream, the last reader since.
class Bytes {
 public:
  std::set<int> Use(int space, int begin, int end, Access access, int node, Stream stream) {
    std::set<int> conflicts;
    for (int at = begin; at < end; ++at) {
      Byte& byte = bytes_[{space, at}];
      if (byte.writer >= 0) conflicts.insert(byte.writer);
      if (access == Access::kRead) {
        byte.readers[stream] = node;
        continue;
      }
      for (const auto& [other, reader] : byte.readers) conflicts.insert(reader);
      byte = {.writer = node, .readers = {}};
    }
    conflicts.erase(node);
    return conflicts;
  }

 private:
  struct Byte {
    int writer = -1;
    std::map<Stream, int> readers;
  };
  std::map<std::pair<int, int>, Byte> bytes_;
};

TEST(HazardMapTest, EqualsAModelOfEveryByteOnRandomUses) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    HazardMap map;
    Bytes bytes;
    for (int node = 0; node < 60; ++node) {
      const Stream stream = static_cast<Stream>(dice(4));
      std::vector<int> conflicts;
      std::set<int> expected;
      for (int uses = 1 + dice(3); uses > 0; --uses) {
        const int space = dice(2), begin = dice(40), end = begin + dice(24);
        const Access access = static_cast<Access>(dice(3));
        map.Use(space, begin, end, access, node, stream, conflicts);
        expected.merge(bytes.Use(space, begin, end, access, node, stream));
      }
      ASSERT_EQ(std::set<int>(conflicts.begin(), conflicts.end()), expected)
          << "seed " << seed << " node " << node;
      ASSERT_EQ(conflicts.size(), expected.size()) << "named twice";
    }
  }
}

std::vector<int> Conflicts(HazardMap& map, int64_t begin, int64_t end, Access access, int node,
                           Stream stream) {
  std::vector<int> conflicts;
  map.Use(0, begin, end, access, node, stream, conflicts);
  return conflicts;
}

TEST(HazardMapTest, WriteComesAfterTheReadersSinceTheLastWriteAndReadsDoNotMeet) {
  HazardMap map;
  EXPECT_THAT(Conflicts(map, 0, 8, Access::kWrite, 0, Stream::kCompute), IsEmpty());
  EXPECT_THAT(Conflicts(map, 0, 8, Access::kRead, 1, Stream::kTensor), ElementsAre(0));
  EXPECT_THAT(Conflicts(map, 4, 8, Access::kRead, 2, Stream::kHost), ElementsAre(0));
  EXPECT_THAT(Conflicts(map, 0, 8, Access::kAccumulate, 3, Stream::kCompute),
              UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(Conflicts(map, 0, 8, Access::kRead, 4, Stream::kCompute), ElementsAre(3));
}

TEST(HazardMapTest, EmptyAndNeighbouringRangesDoNotMeet) {
  HazardMap map;
  Conflicts(map, 8, 16, Access::kWrite, 0, Stream::kCompute);
  EXPECT_THAT(Conflicts(map, 0, 8, Access::kWrite, 1, Stream::kTensor), IsEmpty());
  EXPECT_THAT(Conflicts(map, 16, 24, Access::kWrite, 2, Stream::kTensor), IsEmpty());
  EXPECT_THAT(Conflicts(map, 12, 12, Access::kWrite, 3, Stream::kTensor), IsEmpty());
  std::vector<int> elsewhere;
  map.Use(1, 8, 16, Access::kWrite, 4, Stream::kTensor, elsewhere);
  EXPECT_THAT(elsewhere, IsEmpty());
}

}  // namespace
}  // namespace strata::program
