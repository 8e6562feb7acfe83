// Templates: small programs of ops that instructions call. One template serves all layers of one
// spec.
#ifndef STRATA_PROGRAM_IR_TEMPLATE_H_
#define STRATA_PROGRAM_IR_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/op.h"
#include "program/ir/operand.h"

namespace strata::program {

// The part a formal parameter plays. Builders bind slots by role (and index), never by position or
// name.
enum class Role : uint8_t {
  kInput,           // the layer's input activation [N,C]
  kOutput,          // its output
  kGradientStream,  // in place: the output's gradient on entry, the input's on exit
  kOutputGradient,  // where it cannot be in place: read …
  kInputGradient,   // … and written
  kSaved,           // written by forward, read by backward; index tells several apart
  kStash,           // written by input-backward, read by weight-backward
  kParameters,      // a whole parameter set; index: position in Layer::sets
  kGradients,       // its gradient, accumulated; same index
  kTokens,
  kTargets,
  kPositions,  // of each token inside its document
  kLoss,       // f64, accumulated
  kScalars,
  kConstants,  // index: position in LayerGraph::constants
  kCache,      // a layer's decode cache
  kLogits,
  kState,  // optimizer state; of n states index i of this version, n + i of the next
  kAny,    // bound by the builder that emitted the template itself, by position
};
const char* Name(Role);

struct Formal {
  std::string name;
  Role role = Role::kAny;
  int index = 0;
  int64_t bytes = 0;
};

// Operand::slot of an op: formals first (0 … formals-1), then locals. Locals live inside one call:
// they are laid out once, in a frame that the call binds to one transient slot.
struct Template {
  std::string name;
  std::vector<Formal> formals;
  std::vector<Slot> locals;
  std::vector<Op> ops;

  // Filled by the layout: where each local lies in the frame, and the frame's size.
  std::vector<int64_t> local_offsets;
  int64_t frame_bytes = 0;

  int slot_of_local(int local) const { return static_cast<int>(formals.size()) + local; }
  double flops() const {
    double sum = 0;
    for (const Op& op : ops) sum += op.flops;
    return sum;
  }
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_TEMPLATE_H_
