// The audit trail: who did what, written in the transaction of what it tells of.
#ifndef STRATA_CONTROLLER_LOGIC_AUDIT_TRAIL_H_
#define STRATA_CONTROLLER_LOGIC_AUDIT_TRAIL_H_

#include <cstddef>
#include <deque>

#include "controller/logic/effects.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

class AuditTrail {
 public:
  static constexpr char kTable[] = "audit";  // key: the sequence, in 20 digits

  // Gives the record the next sequence; the oldest ones beyond `most` (at least 1) go.
  void Add(v1::AuditRecord record, size_t most, Effects& effects);
  // One record of the store, in the order of keys; false: it cannot be read.
  bool Restore(const Write& write);

  const std::deque<v1::AuditRecord>& records() const { return records_; }  // oldest first

 private:
  std::deque<v1::AuditRecord> records_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_AUDIT_TRAIL_H_
