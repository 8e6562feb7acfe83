// Operations on flat ranges.
#ifndef STRATA_OPS_ELEMENTWISE_H_
#define STRATA_OPS_ELEMENTWISE_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct Add {
  static constexpr program::OpKind kKind = program::OpKind::kAdd;
  static constexpr const char* kSummary = "dst += src.";
  static constexpr const char* kGradient = "dsrc += d";
  enum { kDst, kSrc };

  int64_t elements = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor) {
    visitor.Count("elements", elements);
    VisitType(visitor, type);
  }
  OperandSpecs Operands() const {
    return {InOut("dst", "[elements]", elements, type), In("src", "[elements]", elements, type)};
  }
  static Add Example() { return {.elements = 9}; }
};

struct Copy {
  static constexpr program::OpKind kKind = program::OpKind::kCopy;
  static constexpr const char* kSummary = "dst = src, bytes of any type.";
  static constexpr const char* kGradient = "add";
  enum { kDst, kSrc };

  int64_t bytes = 0;

  void Visit(AttributeVisitor& visitor) { visitor.Count("bytes", bytes); }
  OperandSpecs Operands() const {
    return {Out("dst", "[bytes]", bytes, program::DType::kBytes),
            In("src", "[bytes]", bytes, program::DType::kBytes)};
  }
  static Copy Example() { return {.bytes = 9}; }
};

struct Zero {
  static constexpr program::OpKind kKind = program::OpKind::kZero;
  static constexpr const char* kSummary = "dst = 0, bytes of any type.";
  enum { kDst };

  int64_t bytes = 0;

  void Visit(AttributeVisitor& visitor) { visitor.Count("bytes", bytes); }
  OperandSpecs Operands() const { return {Out("dst", "[bytes]", bytes, program::DType::kBytes)}; }
  static Zero Example() { return {.bytes = 9}; }
};

struct Scale {
  static constexpr program::OpKind kKind = program::OpKind::kScale;
  static constexpr const char* kSummary = "dst *= factor.";
  static constexpr const char* kGradient = "scale";
  enum { kDst };

  int64_t elements = 0;
  double factor = 1;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor) {
    visitor.Count("elements", elements);
    visitor.Number("factor", factor);
    visitor.Type("type", type);
  }
  OperandSpecs Operands() const { return {InOut("dst", "[elements]", elements, type)}; }
  static Scale Example() { return {.elements = 9, .factor = 2}; }
};

struct Softcap {
  static constexpr program::OpKind kKind = program::OpKind::kSoftcap;
  static constexpr const char* kSummary =
      "x = cap · tanh(x / cap) (Gemma Team, \"Gemma 2\", 2024, §2).";
  enum { kX };

  int64_t elements = 0;
  double cap = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor) {
    visitor.Count("elements", elements);
    visitor.Number("cap", cap);
    visitor.Type("type", type);
  }
  absl::Status Validate() const { return Require(cap > 0, "the cap is not positive"); }
  OperandSpecs Operands() const { return {InOut("x", "[elements]", elements, type)}; }
  static Softcap Example() { return {.elements = 9, .cap = 30}; }
};

struct SumSquares {
  static constexpr program::OpKind kKind = program::OpKind::kSumSquares;
  static constexpr const char* kSummary =
      "out = Σ x² in f64, over fixed blocks of the range in ascending order.";
  enum { kX, kOut };

  int64_t count = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor) {
    visitor.Count("count", count);
    VisitType(visitor, type);
  }
  OperandSpecs Operands() const {
    return {In("x", "[count]", count, type), Out("out", "[]", 1, program::DType::kF64)};
  }
  static SumSquares Example() { return {.count = 9}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_ELEMENTWISE_H_
