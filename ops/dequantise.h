// Quantised weights as numbers.
#ifndef STRATA_OPS_DEQUANTISE_H_
#define STRATA_OPS_DEQUANTISE_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct Dequantise {
  static constexpr program::OpKind kKind = program::OpKind::kDequantise;
  static constexpr const char* kSummary =
      "out = the numbers that NF4 units stand for (Dettmers et al., \"QLoRA\", 2023; kernels/nf4.h "
      "has the layouts: 8512 bytes with scales in 8 bits, 9216 with scales in f32); the last unit "
      "may be longer than what is asked for.";
  enum { kUnits, kOut };

  int64_t elements = 0;
  program::DType type = program::DType::kF32;  // of out
  bool f32_scales = false;

  void Visit(AttributeVisitor& visitor) {
    visitor.Size("elements", elements);
    visitor.Type("type", type);
    visitor.Option("f32_scales", f32_scales);
  }
  OperandSpecs Operands() const {
    const program::DType units = f32_scales ? program::DType::kNf4F32 : program::DType::kNf4;
    return {In("units", "[⌈elements / 16384⌉, 8512 or 9216]", program::BytesOf(units, elements),
               program::DType::kBytes),
            Out("out", "[elements]", elements, type)};
  }
  static Dequantise Example() { return {.elements = 20}; }
};

struct DequantiseRows {
  static constexpr program::OpKind kKind = program::OpKind::kDequantiseRows;
  static constexpr const char* kSummary = "out = codes · scales: one scale per row.";
  enum { kCodes, kScales, kOut };

  int64_t rows = 0, columns = 0;
  program::DType type = program::DType::kF32;  // of out

  void Visit(AttributeVisitor& visitor) {
    visitor.Size("rows", rows);
    visitor.Size("columns", columns);
    visitor.Type("type", type);
  }
  OperandSpecs Operands() const {
    return {In("codes", "[rows, columns]", rows * columns, program::DType::kInt8),
            In("scales", "[rows]", rows), Out("out", "[rows, columns]", rows * columns, type)};
  }
  static DequantiseRows Example() { return {.rows = 2, .columns = 3}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_DEQUANTISE_H_
