// What the controller's logic asks the world to do: writes first, then words.
//
// The daemon hands inputs to the core one at a time, collects effects of a batch of inputs, makes
// all its writes durable in one transaction, and only then releases messages and replies, in order.
// So nothing is said or done that a crash could undo.
#ifndef STRATA_CONTROLLER_LOGIC_EFFECTS_H_
#define STRATA_CONTROLLER_LOGIC_EFFECTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

// Upsert of one record, or its removal. Tables: "jobs" (key: jobs/NAME, value: JobRecord), "events"
// (key: jobs/NAME/NUMBER, value: JobEvent), "meta" (controller_term, resource_version,
// deletion_version, policy, identity), "nodes" (key: nodes/NAME; what must survive: device, count,
// locality, drained, quarantined), "tokens" and "token_uses" (join_tokens.h), "audit" (key:
// sequence), "plan_families" (plan_families.h).
struct Write {
  std::string table;
  std::string key;
  std::string value;   // serialised
  bool erase = false;  // the record goes; value is empty
};

struct Outgoing {
  std::string node;          // nodes/NAME
  uint64_t incarnation = 0;  // of the session it is meant for; dropped when another has replaced it
  uint64_t session = 0;      // that very session: what was meant for one that has ended is dropped
  // Shared: a start may tell every node of a job the addresses of all ranks.
  std::shared_ptr<const v1::ControllerMessage> message;
};

struct Effects {
  // Sessions that are ended with this: their agents may come again.
  struct Refused {
    uint64_t session = 0;
    absl::Status status;
  };
  std::vector<Write> writes;
  std::vector<Outgoing> messages;
  std::vector<Refused> refused;
  std::vector<v1::JobRecord> changed;  // for watches, in order of resource_version
  // Likewise: jobs that are gone. Of a name that was taken again meanwhile, the new job is in
  // `changed` with a later version.
  std::vector<v1::JobRecord> deleted;
  bool IsDeleted(const v1::JobRecord& job) const {
    for (const v1::JobRecord& gone : deleted) {
      const bool later = gone.resource_version() > job.resource_version();
      if (later && gone.name() == job.name()) return true;
    }
    return false;
  }
  std::vector<v1::Node> nodes;  // likewise: nodes that have changed, or are gone
  std::vector<v1::Node> deleted_nodes;
  struct Progress {
    std::string job;
    v1::JobProgress progress;
  };
  std::vector<Progress> progress;  // live only, for StreamProgress
  // One decision of the scheduler, for metrics.
  struct Decision {
    double seconds = 0;  // it took
    int64_t starts = 0;
    int64_t preemptions = 0;   // jobs stopped for another one, or to be moved
    int64_t replacements = 0;  // ranks of recovering jobs that were given another device
  };
  std::vector<Decision> decisions;
  std::vector<v1::AuditRecord> audited;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_EFFECTS_H_
