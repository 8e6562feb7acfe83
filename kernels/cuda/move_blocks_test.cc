#include "kernels/cuda/move_blocks.h"

#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {
namespace {

struct Case {
  BlockMove move;
  int64_t from_count, to_count;
  int64_t to_first = 0;
};

// By packets and by elements, rows wider than a block and narrow ones, from and to one place,
// downwards, and with strides alone or a width alone that is no packet's.
constexpr Case kCases[] = {{{1, 1, 1, 0, 1, 0, 1}, 1, 1},
                           {{2, 3, 5, 20, 6, 31, 9}, 40, 60},
                           {{3, 4, 16, 64, 16, 32, 96}, 192, 368},
                           {{2, 2, 2056, 0, 2056, 4112, 2056}, 4112, 8224},  // of one place
                           {{5, 300, 8, 2400, 8, 0, 8}, 12000, 2400},        // to one place
                           {{3, 2, 8, 16, 8, -16, 8}, 48, 48, 32},
                           {{2, 2, 8, 17, 8, 16, 8}, 33, 32},
                           {{2, 2, 8, 16, 8, 19, 9}, 32, 36},
                           {{2, 2, 7, 16, 8, 16, 8}, 32, 32}};

template <typename T>
class MoveBlocksTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(MoveBlocksTest, NumberTypes);

TYPED_TEST(MoveBlocksTest, RowsAreCopiedOrAddedAndTheRestStays) {
  using T = TypeParam;
  for (const auto& [move, from_count, to_count, to_first] : kCases) {
    const auto from = testing::RandomOf<T>(from_count, 1), to = testing::RandomOf<T>(to_count, 2);
    for (const bool adds : {false, true}) {
      // As kernels/elementwise.h says; sums are rounded block after block.
      std::vector<T> expected = to;
      for (int64_t b = 0; b < move.blocks; ++b) {
        for (int64_t r = 0; r < move.rows; ++r) {
          for (int64_t i = 0; i < move.width; ++i) {
            const T value = from[b * move.from_block + r * move.from_row + i];
            T& into = expected[to_first + b * move.to_block + r * move.to_row + i];
            into = FromFloat<T>(ToFloat(value) + (adds ? ToFloat(into) : 0));
          }
        }
      }
      this->InEachOrder([&, move = move, to_first = to_first] {
        DeviceArray<T> source(from, this->stream()), into(to, this->stream());
        STRATA_EXPECT_OK(
            MoveBlocks<T>(this->stream(), move, adds, source.data(), into.data() + to_first));
        EXPECT_EQ(testing::Back(into.ToHost()), testing::Back(expected));
      });
    }
  }
}

TYPED_TEST(MoveBlocksTest, HeadsAreTakenAndAddedBack) {
  using T = TypeParam;
  for (const int64_t elements : {5, 24}) {
    const HeadsShape shape{.blocks = 2, .parts = 3, .elements = elements, .part = 1};
    const auto all = testing::RandomOf<T>(2 * 3 * elements, 1);
    std::vector<T> own, doubled = all;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t i = 0; i < elements; ++i) {
        T& value = doubled[(b * 3 + 1) * elements + i];
        own.push_back(value);
        value = FromFloat<T>(2 * ToFloat(value));
      }
    }
    this->InEachOrder([&] {
      DeviceArray<T> weights(all, this->stream()), mine(own.size(), this->stream());
      STRATA_EXPECT_OK(TakeHeads<T>(this->stream(), shape, weights.data(), mine.data()));
      EXPECT_EQ(testing::Back(mine.ToHost()), testing::Back(own));
      STRATA_EXPECT_OK(AddHeads<T>(this->stream(), shape, mine.data(), weights.data()));
      EXPECT_EQ(testing::Back(weights.ToHost()), testing::Back(doubled));
    });
  }
}

// The positions of a sequence's rows, rank after rank.
TYPED_TEST(MoveBlocksTest, RowsOfAContextGroupAreOrderedAndBack) {
  using T = TypeParam;
  const std::vector<std::pair<int64_t, std::vector<int64_t>>> kPositions = {
      {1, {0, 1, 2}}, {2, {0, 3, 1, 2}}, {3, {0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7}}};
  for (const auto& [ranks, positions] : kPositions) {
    for (const int64_t width : {3, 8}) {
      const int64_t batch = 2, sequence = positions.size(), rows = sequence / ranks;
      const int64_t gap = 16, stride = batch * rows * width + gap;
      const OrderedRowsShape shape{batch, ranks, rows, width, stride};
      const auto ordered = testing::RandomOf<T>(batch * sequence * width, 1);
      std::vector<T> ranked(ranks * stride);
      for (int64_t at = 0; at < sequence; ++at) {
        for (int64_t b = 0; b < batch; ++b) {
          for (int64_t i = 0; i < width; ++i) {
            ranked[at / rows * stride + (b * rows + at % rows) * width + i] =
                ordered[(b * sequence + positions[at]) * width + i];
          }
        }
      }
      this->InEachOrder([&, ranks = ranks] {
        DeviceArray<T> from(ranked, this->stream()), to(ordered.size(), this->stream()),
            back(std::vector<T>(ranked.size()), this->stream());
        STRATA_EXPECT_OK(OrderRows(this->stream(), shape, false, from.data(), to.data()));
        EXPECT_EQ(testing::Back(to.ToHost()), testing::Back(ordered));
        STRATA_EXPECT_OK(OrderRows(this->stream(), shape, true, back.data(), to.data()));
        EXPECT_EQ(testing::Back(back.ToHost()), testing::Back(ranked));
      });
    }
  }
}

TYPED_TEST(MoveBlocksTest, NothingIsNoWorkAndWhatIsNotThereIsRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    T* none = nullptr;
    STRATA_EXPECT_OK(MoveBlocks<T>(this->stream(), {0, 3, 8}, false, none, none));
    STRATA_EXPECT_OK(MoveBlocks<T>(this->stream(), {2, 0, 8}, true, none, none));
    STRATA_EXPECT_OK(MoveBlocks<T>(this->stream(), {2, 3, 0}, true, none, none));
    EXPECT_EQ(MoveBlocks<T>(this->stream(), {2, -3, 8}, true, none, none).message(),
              "move of 2 blocks of -3 rows of 8");
    EXPECT_EQ(TakeHeads<T>(this->stream(), {2, 3, 8, 3}, none, none).message(),
              "heads of part 3 of 3, of 8 elements, in 2 blocks");
    EXPECT_EQ(OrderRows<T>(this->stream(), {1, 2, 3, 8, 24}, false, none, none).message(),
              "order of 3 rows of 8 in each of 1 sequences on 2 ranks");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
