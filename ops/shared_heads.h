// Rows of a weight that several ranks of a group share: fewer key and value heads than tensor
// ranks. Every rank holds all of them and works with those of one head.
#ifndef STRATA_OPS_SHARED_HEADS_H_
#define STRATA_OPS_SHARED_HEADS_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

// What both ops say: [blocks, parts, E] of which this rank's is the part (own index in the group) /
// share of each block, all of them [blocks, E].
struct SharedHeads {
  int64_t blocks = 0;    // keys, values: 2
  int64_t parts = 0;     // heads
  int64_t elements = 0;  // E
  program::Group group = program::Group::kNone;
  int64_t share = 0;  // ranks per part
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor) {
    visitor.Size("blocks", blocks);
    visitor.Size("parts", parts);
    visitor.Size("elements", elements);
    visitor.Of("group", group);
    visitor.Size("share", share);
    VisitType(visitor, type);
  }
  static SharedHeads OfExample() {
    return {.blocks = 2, .parts = 3, .elements = 4, .group = program::Group::kTensor, .share = 2};
  }
};

struct TakeHeads {
  static constexpr program::OpKind kKind = program::OpKind::kTakeHeads;
  static constexpr const char* kSummary =
      "own[b] = all[b, (own index in the group) / share], b of blocks, E elements each.";
  static constexpr const char* kGradient = "add-heads";
  enum { kAll, kOwn };

  SharedHeads of;

  void Visit(AttributeVisitor& visitor) { of.Visit(visitor); }
  OperandSpecs Operands() const {
    return {In("all", "[blocks, parts, E]", of.blocks * of.parts * of.elements, of.type),
            Out("own", "[blocks, E]", of.blocks * of.elements, of.type)};
  }
  static TakeHeads Example() { return {SharedHeads::OfExample()}; }
};

struct AddHeads {
  static constexpr program::OpKind kKind = program::OpKind::kAddHeads;
  static constexpr const char* kSummary =
      "all[b, (own index in the group) / share] += own[b]; the others stay as they are.";
  enum { kAll, kOwn };

  SharedHeads of;

  void Visit(AttributeVisitor& visitor) { of.Visit(visitor); }
  OperandSpecs Operands() const {
    return {InOut("all", "[blocks, parts, E]", of.blocks * of.parts * of.elements, of.type),
            In("own", "[blocks, E]", of.blocks * of.elements, of.type)};
  }
  static AddHeads Example() { return {SharedHeads::OfExample()}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_SHARED_HEADS_H_
