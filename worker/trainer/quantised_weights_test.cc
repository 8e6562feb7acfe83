#include "worker/trainer/quantised_weights.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/int8.h"

namespace strata::worker {
namespace {

using program::ParameterSet;
using program::TensorSpec;

constexpr int64_t kColumns = 24;

// Elements are functions of name, row and column.
class Numbers final : public checkpoint::TensorSource {
 public:
  absl::Status ReadRegion(const std::string& name, const checkpoint::Region& region,
                          float* out) override {
    for (int64_t i = region.begin; i < region.end; ++i) {
      const int64_t width = region.box.extent[1];
      *out++ = At(name, region.box.offset[0] + i / width, region.box.offset[1] + i % width);
    }
    return absl::OkStatus();
  }
  static float At(const std::string& name, int64_t row, int64_t column) {
    const auto at = static_cast<float>(name[0] + 31 * row + column * column);
    return std::sin(at) * static_cast<float>(1 + row);
  }
};

TensorSpec ScalesOf(TensorSpec tensor) {
  tensor.name += program::kRowScales;
  for (TensorSpec::Part& part : tensor.parts) part.name += program::kRowScales;
  tensor.shape[1] = 4;
  if (tensor.cut.dimension == 1) tensor.cut = {};
  return tensor;
}

// A fused tensor that is cut by rows, and one that is cut by columns.
ParameterSet SetOf(int64_t ways, int64_t ranges) {
  ParameterSet set;
  set.trainable = false;
  set.type = program::DType::kInt8;
  set.alignment = 64;
  const TensorSpec qkv{.name = "qkv",
                       .shape = {20 / ways, kColumns},
                       .parts = {{"q", 10 / ways}, {"k", 6 / ways}, {"v", 4 / ways}},
                       .cut = {program::Group::kTensor, 0, ways}};
  const TensorSpec o{
      .name = "o", .shape = {7, kColumns / ways}, .cut = {program::Group::kTensor, 1, ways}};
  set.tensors = {qkv, ScalesOf(qkv), o, ScalesOf(o)};
  program::FlattenSet(set, ranges);
  return set;
}

using Bytes = std::map<std::string, std::map<int64_t, std::byte>>;  // by tensor and element

// What all ranks of a tensor group of `ways` with as many shards as `ranges` load.
Bytes LoadAll(int64_t ways, int64_t ranges) {
  Bytes loaded;
  const ParameterSet set = SetOf(ways, ranges);
  Numbers numbers;
  const int64_t count = set.elements / ranges;
  for (int64_t rank = 0; rank < ways; ++rank) {
    std::vector<std::byte> flat;
    for (int64_t shard = 0; shard < ranges; ++shard) {
      std::vector<std::byte> bytes(static_cast<size_t>(count));
      EXPECT_TRUE(LoadQuantised(set, shard * count, rank, numbers, absl::MakeSpan(bytes)).ok());
      flat.insert(flat.end(), bytes.begin(), bytes.end());
    }
    for (const program::ElementRun& run : ElementRuns(set, rank, 0, set.elements)) {
      auto& tensor = loaded[set.tensors[run.tensor].logical_name(run.part)];
      for (int64_t i = 0; i < run.count; ++i) {
        const auto [at, added] = tensor.try_emplace(run.first + i, flat[run.flat + i]);
        EXPECT_EQ(at->second, flat[run.flat + i]) << "ranks have different scales";
      }
    }
  }
  return loaded;
}

TEST(QuantisedWeightsTest, RowsOf8Bits_HaveTheScalesOfWholeRows) {
  const Bytes loaded = LoadAll(1, 1);
  for (const auto& [name, rows] : std::map<std::string, int64_t>{{"k", 6}, {"o", 7}}) {
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> values;
      for (int64_t i = 0; i < kColumns; ++i) values.push_back(Numbers::At(name, row, i));
      const float scale = kernels::Int8Scale(values.data(), kColumns);
      std::vector<int8_t> codes(kColumns);
      kernels::QuantiseInt8(values.data(), kColumns, scale, codes.data());
      for (int64_t i = 0; i < kColumns; ++i) {
        EXPECT_EQ(static_cast<int8_t>(loaded.at(name).at(row * kColumns + i)), codes[i]);
      }
      float found = 0;
      for (int64_t i = 0; i < 4; ++i) {
        const std::byte byte = loaded.at(name + program::kRowScales).at(4 * row + i);
        std::memcpy(reinterpret_cast<std::byte*>(&found) + i, &byte, 1);
      }
      EXPECT_EQ(found, scale);
    }
  }
}

TEST(QuantisedWeightsTest, RowsOf8Bits_AreTheSameInEveryLayout) {
  const Bytes whole = LoadAll(1, 1);
  EXPECT_EQ(whole.size(), 8u);
  for (const int64_t ranges : {1, 2, 8}) {
    EXPECT_TRUE(LoadAll(1, ranges) == whole) << ranges;
    EXPECT_TRUE(LoadAll(2, ranges) == whole) << ranges;
  }
}

}  // namespace
}  // namespace strata::worker
