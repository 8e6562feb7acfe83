#include "controller/service/reactor/deadlines.h"

#include <utility>
#include <vector>

namespace strata::controller {

void Deadlines::Add(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({clock_->Now() + seconds_, std::move(then)});
}

void Deadlines::OnTick(const Core& /*core*/) {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    while (!waiting_.empty() && waiting_.front().at <= clock_->Now()) {
      due.push_back(std::move(waiting_.front().then));
      waiting_.pop_front();
    }
  }
  for (const auto& then : due) then();
}

}  // namespace strata::controller
