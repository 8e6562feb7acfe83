// What users and operators do to a cluster at work: they change, suspend, resume and delete jobs,
// change the policy, forget nodes, upgrade programs, and put back an old copy of the controller's
// store.
#ifndef STRATA_SIMULATION_OPERATIONS_H_
#define STRATA_SIMULATION_OPERATIONS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "controller/logic/core.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::simulation {

class Cluster;
class SimNode;

class Operations {
 public:
  explicit Operations(Cluster& cluster) : cluster_(cluster) {}

  // Some of them, each at a time of its own. `policy`: the one that is in force at the end.
  void Plan(const v1::Policy& policy);
  // Of a cluster where nothing else goes wrong: that nobody drains, suspends or keeps back what is
  // to end. To be repeated, for what was answered may be lost with the store.
  void Tidy();

 private:
  using Request = std::function<absl::Status(controller::Core&, controller::Effects&)>;

  // Until it is answered, whatever the answer is.
  void Insist(const Request& request);
  void PlanFor(const std::string& job, double at);
  void Suspend(const std::string& job);
  void Resume(const std::string& job);
  void GiveTime(const std::string& job);
  void Update(const std::string& job);
  void Delete(const std::string& job);
  void PlanPolicies();
  v1::Policy OtherPolicy();
  void PlanUpgrade();
  void PlanRelease(const std::string& build, const v1::ProtocolRange& range, double at);
  // The first is a mistake now and then: a release that nobody understands any more, until it is
  // seen.
  void Install(double at, const std::function<void(const v1::ProtocolRange&)>& install,
               const v1::ProtocolRange& range);
  void PlanRestore();
  void PlanReplacement();
  // As soon as it is not in use, or it is back.
  void Forget(const std::string& node, int tries);

  Cluster& cluster_;
  v1::Policy policy_;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_OPERATIONS_H_
