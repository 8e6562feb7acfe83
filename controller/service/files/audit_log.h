// The audit trail as JSON lines, for whoever collects the daemon's words (journald).
#ifndef STRATA_CONTROLLER_SERVICE_FILES_AUDIT_LOG_H_
#define STRATA_CONTROLLER_SERVICE_FILES_AUDIT_LOG_H_

#include <cstdio>
#include <string>

#include "controller/service/files/file_pool.h"
#include "controller/service/reactor/reactor.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

// {"audit": sequence, "time": seconds since 1970, "identity", "peer", "method", "resource",
// "outcome", "reason", "request_id", "certificate"} and a newline.
std::string WriteAuditLine(const v1::AuditRecord& record);

// Writes what is durable, on the pool's threads: a reader that does not read delays nobody. What
// such a one leaves no room for is in the controller's store only.
class AuditLog final : public Reactor::Listener {
 public:
  // Borrowed; the pool best for this alone. `file`: null: none is written.
  AuditLog(FilePool* pool, std::FILE* file) : pool_(pool), file_(file) {}

  void OnEffects(const Core& core, const Effects& effects) override;

 private:
  FilePool* const pool_;
  std::FILE* const file_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_AUDIT_LOG_H_
