// How long the bytes of slots are needed, and how long they are kept from others so that nobody
// waits for what runs beside.
#ifndef STRATA_PROGRAM_PASSES_LIFETIMES_H_
#define STRATA_PROGRAM_PASSES_LIFETIMES_H_

#include <array>
#include <deque>
#include <limits>
#include <vector>

#include "program/ir/program.h"
#include "program/passes/hazards.h"
#include "program/passes/order.h"
#include "program/passes/placement.h"

namespace strata::program {

// One instruction or op, as far as lifetimes depend on it.
struct LifetimeStep {
  Stream stream = Stream::kCompute;
  bool hides = false;       // on the main stream: long enough to hide communication under it
  std::vector<int> before;  // earlier steps that it waits for in any case
};

// Steps are added in list order. What a step beside the main stream uses last is held over the next
// `horizon` hiding steps of the main stream (or all that are left), but not beyond the step that
// must wait for it in any case: no other step of the main stream gets its bytes, to wait for a
// stream that it has nothing to do with. Where too few hiding steps are left and no step must wait,
// as for what updates send home, nothing bounds that but the list's end: see Finish.
class Lifetimes {
 public:
  // Slots numbered from `first` on get intervals, `count` of them; those before are persistent or
  // formals, and only order steps.
  Lifetimes(int first, int count, Stream main, int horizon)
      : first_(first), main_(main), horizon_(horizon), intervals_(count), users_(count) {}

  // Slots that steps beside the main stream use, to be named before any step is added: only they
  // make streams wait for each other.
  void Share(const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) {
      if (operand.slot >= static_cast<int>(shared_.size())) shared_.resize(operand.slot + 1);
      shared_[operand.slot] = true;
    }
  }
  // `frame`: one more slot that the step uses; -1: none.
  void Add(const LifetimeStep& step, const std::vector<Operand>& operands, const GroupSizes& groups,
           int frame = -1);

  static constexpr int kToTheEnd = std::numeric_limits<int>::max();
  // Without bytes and alignments. `tail`: for how many more steps of the main stream that is held
  // which nothing else bounds.
  std::vector<Interval> Finish(int tail = kToTheEnd) const;

 private:
  void Include(int slot, int step);
  void Await(int step);
  int HeldUntil(int step, int tail) const;

  const int first_;
  const Stream main_;
  const int horizon_;
  std::vector<bool> shared_;  // per slot
  std::vector<Interval> intervals_;
  std::vector<std::vector<int>> users_;  // of each slot, beside the main stream: newest per stream
  std::vector<Stream> streams_;          // per step
  std::vector<int> mains_;               // steps of the main stream
  std::vector<int> hiding_;              // of these
  std::vector<int> awaited_by_;          // per step: the first of the main stream that must wait
  std::array<std::deque<int>, kStreamCount> pending_;  // steps that nothing awaits yet
  HazardMap map_;
  Order order_;
};

// Of the program's own slots; `horizon`: see LayoutOptions.
Lifetimes LifetimesOf(const ProgramSet& set, const Program& program, int horizon);

// Whether an op computes more than it moves: a product, not a sum or a copy.
bool Hides(const Op& op);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_LIFETIMES_H_
