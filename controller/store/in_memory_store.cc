#include "controller/store/in_memory_store.h"

#include "common/status_macros.h"

namespace strata::controller {

absl::Status InMemoryStore::Commit(absl::Span<const Write> writes) {
  std::function<absl::Status()> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = before_commit_;
  }
  if (hook) RETURN_IF_ERROR(hook());
  const std::lock_guard lock(mutex_);
  for (const Write& write : writes) {
    if (write.erase) {
      records_.erase({write.table, write.key});
    } else {
      records_[{write.table, write.key}] = write.value;
    }
  }
  ++commits_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Write>> InMemoryStore::Load() {
  const std::lock_guard lock(mutex_);
  std::vector<Write> records;
  for (const auto& [key, value] : records_) records.push_back({key.first, key.second, value});
  return records;
}

void InMemoryStore::set_before_commit(std::function<absl::Status()> hook) {
  const std::lock_guard lock(mutex_);
  before_commit_ = std::move(hook);
}

int64_t InMemoryStore::commits() const {
  const std::lock_guard lock(mutex_);
  return commits_;
}

}  // namespace strata::controller
