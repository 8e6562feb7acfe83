#include "controller/service/reactor/policy_view.h"

#include <algorithm>

namespace strata::controller {

bool ChangesPolicy(const Effects& effects) {
  return std::any_of(effects.writes.begin(), effects.writes.end(), [](const Write& write) {
    return write.table == "meta" && write.key == "policy";
  });
}

void PolicyView::OnEffects(const Core& core, const Effects& effects) {
  if (ChangesPolicy(effects)) OnLoad(core);
}

void PolicyView::OnLoad(const Core& core) {
  auto policy = std::make_shared<const v1::Policy>(core.policy());
  const std::lock_guard lock(mutex_);
  policy_ = std::move(policy);
}

}  // namespace strata::controller
