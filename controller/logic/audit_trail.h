// The audit trail: who did what, written in the transaction of what it tells of. What was done and
// what was refused are kept apart, so that no flood of refusals washes out who changed something.
#ifndef STRATA_CONTROLLER_LOGIC_AUDIT_TRAIL_H_
#define STRATA_CONTROLLER_LOGIC_AUDIT_TRAIL_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "controller/logic/effects.h"
#include "controller/logic/shared_table.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

class AuditTrail {
 public:
  static constexpr char kTable[] = "audit";  // key: the sequence, in 20 digits

  // Gives the record the next sequence; of its kind (done, or not) the oldest ones beyond `most`
  // (at least 1) go.
  void Add(v1::AuditRecord record, size_t most, Effects& effects);
  // One record of the store, in the order of keys; false: it cannot be read.
  bool Restore(const Write& write);

  struct BySequence {
    static int64_t KeyOf(const v1::AuditRecord& record) { return record.sequence(); }
  };
  // A copy of them stays as it is.
  using Records = SharedTable<v1::AuditRecord, BySequence>;
  const Records& records() const { return records_; }

 private:
  std::deque<int64_t>& KindOf(const v1::AuditRecord& record);

  void Keep(v1::AuditRecord record);

  Records records_;
  int64_t last_ = 0;                    // sequence
  std::deque<int64_t> done_, refused_;  // their sequences, oldest first
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_AUDIT_TRAIL_H_
