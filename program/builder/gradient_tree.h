// Partial gradients of one set on one rank: virtual shards' sums combined in the fixed tree (leaves
// paired bottom-up, 2i with 2i+1, an odd one passing up), with as few buffers as the tree allows: 1
// + log2(leaves) for powers of two.
#ifndef STRATA_PROGRAM_BUILDER_GRADIENT_TREE_H_
#define STRATA_PROGRAM_BUILDER_GRADIENT_TREE_H_

#include <string>
#include <vector>

#include "program/compose/assembler.h"

namespace strata::program {

class GradientTree {
 public:
  // `partial`: what the sums are partial over until they are reduced.
  GradientTree(Assembler& assembler, const ParameterSet& set, int leaves, Partial partial)
      : assembler_(&assembler), set_(&set), leaves_(leaves), partial_(partial) {}

  void BeginLeaf();  // zeroes the buffer that the next micro-batches add to
  int Leaf() const { return buffers_[depth_]; }  // its slot
  void EndLeaf();                                // combines what can be combined
  int Root() const { return buffers_[0]; }       // after the last EndLeaf: the sum of all leaves

 private:
  void CombineTop();

  Assembler* assembler_;
  const ParameterSet* set_;
  int leaves_;
  Partial partial_;
  std::vector<int> buffers_;  // slots, made at first use
  std::vector<int> levels_;   // of the finished sums on the stack
  int depth_ = 0;             // finished sums
  int ended_ = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_GRADIENT_TREE_H_
