// The controller's durable state: records (table, key) -> value, written in atomic batches.
//
// Commit returns OK only when the whole batch would survive a power loss, so what is acknowledged
// after it stays. One process at a time uses a directory.
#ifndef STRATA_CONTROLLER_STORE_STORE_H_
#define STRATA_CONTROLLER_STORE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "controller/logic/effects.h"

namespace strata::controller {

// Not thread-safe: one thread owns it.
class Store {
 public:
  virtual ~Store() = default;

  // SQLite (write-ahead log, synchronous FULL) in `directory`/controller.db; the directory is made
  // when it is missing, and locked as long as the store lives. FailedPrecondition: another process
  // has it, or the database is of another version; DataLoss: it is damaged; Internal: I/O errors.
  // Errors name the path.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& directory);

  // All of them or none. ResourceExhausted: the disk is full, nothing is written, and a later
  // commit may succeed. Unavailable: an I/O error, after which this store refuses all commits,
  // because a failed sync must not be tried again on the same file (Rebello et al., "Can
  // applications recover from fsync failures?", USENIX ATC 2020): end the process.
  virtual absl::Status Commit(absl::Span<const Write> writes) = 0;
  // Every record, by table and key.
  virtual absl::StatusOr<std::vector<Write>> Load() = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_STORE_STORE_H_
