// Layout: gives every slot its bytes and adds the dependencies that make the list order hold on
// those bytes.
#ifndef STRATA_PROGRAM_PASSES_LAYOUT_H_
#define STRATA_PROGRAM_PASSES_LAYOUT_H_

#include "absl/status/status.h"
#include "program/ir/program.h"

namespace strata::program {

inline constexpr int64_t kPageBytes = 4096;

// Communication runs beside compute as long as compute is not given its bytes: operands of
// instructions on other streams than compute (of ops on other streams than the caller's) are held
// back while the next calls (ops) run that compute more than they move. See Lifetimes. After the
// last of these calls, what none waits for is held to the end where that costs no bytes, else for
// two calls: weights at home on the host, updated on the device, leave as others are made.
// One call: a reduction has all of the next layer's backward to hide under, and if it takes longer
// in every layer no horizon hides it. Each call more costs a layer's whole gradient where gradients
// are sharded (GPT-2 124M on two ranks: zero3 +7.3 % with one, +8.8 % with two; zero2 +1.7 %,
// +3.0 %; others +0.3 %).
struct LayoutOptions {
  int horizon_calls = 1;
  int horizon_ops = 1;
};

// Builders list instructions in an order that gives the right result when executed one after the
// other; streams may then run ahead of each other as far as dependencies let them. The layout, in
// this order:
//  1. lays out each template's locals in its frame, and orders ops that meet on the same bytes on
//  different streams;
//  2. adds a frame slot to every call;
//  3. decides for each versioned slot whether versions s and s+1 share bytes: they do when every
//     other use of version s ends before the write of s+1 begins, and s+1 is written only where the
//     step is applied (communication that moves s+1 about writes none);
//  4. places persistent slots, then each program's transient ones: two may share bytes where their
//  uses do not
//     interleave in list order, nor one begins within the other's horizon (best fit, larger slots
//     first);
//  5. adds the missing dependencies between instructions of different streams that meet on the same
//  bytes, within the
//     step and between consecutive steps, whether the steps are applied or not.
// A template's formals are taken to be different bytes: a call that binds two of them to the same
// ones must not use them on different streams (the verifier refuses it).
// Errors: InvalidArgument for operands outside their slots or templates, and for references to what
// does not exist or does not come before.
absl::Status LayOut(ProgramSet& set, const LayoutOptions& options = {});

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_LAYOUT_H_
