// The policy in force, for whoever is not on the reactor's thread.
#ifndef STRATA_CONTROLLER_SERVICE_REACTOR_POLICY_VIEW_H_
#define STRATA_CONTROLLER_SERVICE_REACTOR_POLICY_VIEW_H_

#include <memory>
#include <mutex>

#include "controller/service/reactor/reactor.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// Whether these change the policy.
bool ChangesPolicy(const Effects& effects);

class PolicyView final : public Reactor::Listener {
 public:
  // From any thread. Null: none is known yet.
  std::shared_ptr<const v1::Policy> Get() const {
    const std::lock_guard lock(mutex_);
    return policy_;
  }

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnLoad(const Core& core) override;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const v1::Policy> policy_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REACTOR_POLICY_VIEW_H_
