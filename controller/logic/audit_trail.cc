#include "controller/logic/audit_trail.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace strata::controller {
namespace {

std::string AuditKey(int64_t sequence) { return absl::StrFormat("%020d", sequence); }

}  // namespace

std::deque<int64_t>& AuditTrail::KindOf(const v1::AuditRecord& record) {
  return record.outcome() == "OK" ? done_ : refused_;
}

void AuditTrail::Add(v1::AuditRecord record, size_t most, Effects& effects) {
  const int64_t sequence = records_.empty() ? 1 : records_.rbegin()->first + 1;
  record.set_sequence(sequence);
  effects.writes.push_back({kTable, AuditKey(sequence), record.SerializeAsString()});
  effects.audited.push_back(record);
  std::deque<int64_t>& kind = KindOf(record);
  kind.push_back(sequence);
  records_[sequence] = std::move(record);
  for (const size_t kept = std::max<size_t>(most, 1); kind.size() > kept; kind.pop_front()) {
    effects.writes.push_back({kTable, AuditKey(kind.front()), "", true});
    records_.erase(kind.front());
  }
}

bool AuditTrail::Restore(const Write& write) {
  v1::AuditRecord record;
  if (!record.ParseFromString(write.value) || AuditKey(record.sequence()) != write.key) {
    return false;
  }
  KindOf(record).push_back(record.sequence());
  const int64_t sequence = record.sequence();
  records_[sequence] = std::move(record);
  return true;
}

}  // namespace strata::controller
