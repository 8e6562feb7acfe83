#include "controller/logic/audit_trail.h"

#include <algorithm>
#include <memory>
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
  const int64_t sequence = last_ + 1;
  record.set_sequence(sequence);
  effects.writes.push_back({kTable, AuditKey(sequence), record.SerializeAsString()});
  effects.audited.push_back(record);
  std::deque<int64_t>& kind = KindOf(record);
  Keep(std::move(record));
  for (const size_t kept = std::max<size_t>(most, 1); kind.size() > kept; kind.pop_front()) {
    effects.writes.push_back({kTable, AuditKey(kind.front()), "", true});
    records_.Erase(kind.front());
  }
}

bool AuditTrail::Restore(const Write& write) {
  v1::AuditRecord record;
  if (!record.ParseFromString(write.value) || AuditKey(record.sequence()) != write.key) {
    return false;
  }
  Keep(std::move(record));
  return true;
}

void AuditTrail::Keep(v1::AuditRecord record) {
  last_ = record.sequence();
  KindOf(record).push_back(last_);
  records_.Set(std::make_shared<const v1::AuditRecord>(std::move(record)));
}

}  // namespace strata::controller
