#include "controller/logic/audit_trail.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace strata::controller {
namespace {

std::string AuditKey(int64_t sequence) { return absl::StrFormat("%020d", sequence); }

}  // namespace

void AuditTrail::Add(v1::AuditRecord record, size_t most, Effects& effects) {
  record.set_sequence(records_.empty() ? 1 : records_.back().sequence() + 1);
  effects.writes.push_back({kTable, AuditKey(record.sequence()), record.SerializeAsString()});
  effects.audited.push_back(record);
  records_.push_back(std::move(record));
  for (const size_t kept = std::max<size_t>(most, 1); records_.size() > kept;) {
    effects.writes.push_back({kTable, AuditKey(records_.front().sequence()), "", true});
    records_.pop_front();
  }
}

bool AuditTrail::Restore(const Write& write) {
  v1::AuditRecord record;
  if (!record.ParseFromString(write.value) || AuditKey(record.sequence()) != write.key) {
    return false;
  }
  records_.push_back(std::move(record));
  return true;
}

}  // namespace strata::controller
