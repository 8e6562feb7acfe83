// A store for tests: forgets everything when it ends, counts commits, fails on request.
#ifndef STRATA_CONTROLLER_STORE_IN_MEMORY_STORE_H_
#define STRATA_CONTROLLER_STORE_IN_MEMORY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "controller/store/store.h"

namespace strata::controller {

class InMemoryStore final : public Store {
 public:
  absl::Status Commit(absl::Span<const Write> writes) override;
  absl::StatusOr<std::vector<Write>> Load() override;

  // Called before each commit, outside the lock; what it returns, unless OK, is the commit's
  // outcome. It may block.
  void set_before_commit(std::function<absl::Status()> hook);
  int64_t commits() const;

 private:
  mutable std::mutex mutex_;  // guards all below: tests look while another thread commits
  std::function<absl::Status()> before_commit_;
  std::map<std::pair<std::string, std::string>, std::string> records_;
  int64_t commits_ = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_STORE_IN_MEMORY_STORE_H_
