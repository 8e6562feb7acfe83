// ldmatrix, stmatrix and mma.sync: fragments as PTX ISA, "Warp-level matrix instructions", lays
// them out over the lanes.
#include <algorithm>
#include <cstring>
#include <string>

#include "device/standin/lane_math.h"
#include "device/standin/number_formats.h"

namespace strata::standin {
namespace {

// Row r of matrix i is at the address of lane 8 i + r. Lane l has elements 2 (l % 4) and the next
// of row l / 4; transposed, of column l / 4.
template <typename Visit>
void ForEachHalf(Warp& warp, const Instruction& in, int base, int matrices, uint32_t lanes,
                 Visit&& visit) {
  ForEachLane(lanes, [&](int lane) {
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int half = 0; half < 2; ++half) {
        const int across = lane % 4 * 2 + half, along = lane / 4;
        const int row = in.transpose ? across : along, column = in.transpose ? along : across;
        const uint64_t begin = warp.Row(base)[8 * matrix + row] + in.offsets[0];
        visit(lane, matrix, half, begin, uint64_t{2} * static_cast<uint64_t>(column));
      }
    }
  });
}

Place HalfAt(Warp& warp, const Instruction& in, uint64_t begin, uint64_t offset, int lane) {
  const Place row = warp.Resolve(in, in.space, begin, 16, lane);  // bounds and alignment of all
  if (row.data == nullptr) return {};
  return {row.data + offset, row.shadow, row.offset + offset, row.origin, row.name};
}

void LoadMatrices(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int matrices = static_cast<int>(in.rows.size()) - 1;
  uint32_t loaded[4][kLanes] = {};
  ForEachHalf(warp, in, in.rows[matrices], matrices, lanes,
              [&](int lane, int matrix, int half, uint64_t begin, uint64_t offset) {
                const Place place = HalfAt(warp, in, begin, offset, lane);
                uint16_t value = 0xffff;
                if (place.data != nullptr) {
                  warp.Touch(in, place, 2, Checker::Access::kRead, false, lane);
                  std::memcpy(&value, place.data, 2);
                }
                loaded[matrix][lane] |= static_cast<uint32_t>(value) << (16 * half);
              });
  for (int matrix = 0; matrix < matrices; ++matrix) {
    ForEachLane(lanes, [&](int lane) { warp.Row(in.rows[matrix])[lane] = loaded[matrix][lane]; });
  }
}

void StoreMatrices(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int matrices = static_cast<int>(in.rows.size()) - 1;
  ForEachHalf(warp, in, in.rows[0], matrices, lanes,
              [&](int lane, int matrix, int half, uint64_t begin, uint64_t offset) {
                const Place place = HalfAt(warp, in, begin, offset, lane);
                if (place.data == nullptr) return;
                warp.Touch(in, place, 2, Checker::Access::kWrite, false, lane);
                const uint16_t value =
                    static_cast<uint16_t>(warp.Row(in.rows[1 + matrix])[lane] >> (16 * half));
                std::memcpy(place.data, &value, 2);
              });
}

// An element of a fragment: of 16 bits, two in a register; or an f32.
float Element(Warp& warp, int row, int lane, int half, const Type& type) {
  const uint64_t bits = warp.Row(row)[lane];
  return static_cast<float>(
      ToDouble(type, bits >> (type.bits * half) & ((uint64_t{1} << type.bits) - 1)));
}

// mma.sync.aligned.m16n8kK.row.col.f32.A.B.f32: rows D 4, A K/4, B K/8, C 4, for 16-bit A and B.
// The sum runs over k upwards in f32: the device's order is not documented.
template <int kK>
void MultiplyTiles(Warp& warp, const Instruction& in, uint32_t lanes) {
  constexpr int kM = 16, kN = 8, kRowsA = kK / 4, kRowsB = kK / 8;
  const int32_t* const rows_a = &in.rows[4];
  const int32_t* const rows_b = rows_a + kRowsA;
  const int32_t* const rows_c = rows_b + kRowsB;
  const Type type = in.from;
  float a[kM][kK], b[kK][kN];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane / 4, in_group = lane % 4;
    for (int i = 0; i < kRowsA; ++i) {
      for (int half = 0; half < 2; ++half) {
        a[group + i % 2 * 8][in_group * 2 + half + i / 2 * 8] =
            Element(warp, rows_a[i], lane, half, type);
      }
    }
    for (int i = 0; i < kRowsB; ++i) {
      for (int half = 0; half < 2; ++half) {
        b[in_group * 2 + half + i * 8][group] = Element(warp, rows_b[i], lane, half, type);
      }
    }
  }
  constexpr Type kFloat{Base::kFloat, 32, 1};
  float out[4][kLanes];
  ForEachLane(lanes, [&](int lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = Element(warp, rows_c[i], lane, 0, kFloat);
      for (int k = 0; k < kK; ++k) sum += a[row][k] * b[k][column];
      out[i][lane] = sum;
    }
  });
  for (int i = 0; i < 4; ++i) {
    ForEachLane(lanes, [&](int lane) { warp.Row(in.rows[i])[lane] = Pack(out[i][lane]); });
  }
}

bool DecodeProduct(const Opcode& opcode, Instruction& instruction) {
  if (opcode.types.size() != 4 || !opcode.Has("row") || !opcode.Has("col")) return false;
  const Type d = opcode.type(0), a = opcode.type(1), b = opcode.type(2), c = opcode.type(3);
  const Type f32{Base::kFloat, 32, 1};
  if (d != f32 || c != f32 || a != b || a.bits != 16 || !a.IsFloating()) return false;
  instruction.from = a;
  if (opcode.Has("m16n8k16") && instruction.rows.size() == 14) {
    instruction.execute = &MultiplyTiles<16>;
  } else if (opcode.Has("m16n8k8") && instruction.rows.size() == 11) {
    instruction.execute = &MultiplyTiles<8>;
  }
  return instruction.execute != nullptr;
}

}  // namespace

bool DecodeMatrix(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name() == "ldmatrix" && opcode.Has("m8n8") && opcode.Has("b16")) {
    instruction.execute = &LoadMatrices;
  } else if (opcode.name() == "stmatrix" && opcode.Has("m8n8") && opcode.Has("b16")) {
    instruction.execute = &StoreMatrices;
  } else if (opcode.name() != "mma" || !DecodeProduct(opcode, instruction)) {
    return false;
  }
  instruction.flow = Flow::kMeet;
  return true;
}

}  // namespace strata::standin
