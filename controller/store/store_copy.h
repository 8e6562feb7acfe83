// A copy of the store as it was at one moment, made piece by piece beside its commits.
#ifndef STRATA_CONTROLLER_STORE_STORE_COPY_H_
#define STRATA_CONTROLLER_STORE_STORE_COPY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace strata::controller {

// Used by one thread at a time, which need not be the store's. What it has copied goes with it.
class StoreCopy {
 public:
  // How copies are called while they are made, in the store's directory.
  static constexpr char kPrefix[] = "backup-";

  virtual ~StoreCopy() = default;
  // Copies a few MiB. True: complete. Errors name the file.
  virtual absl::StatusOr<bool> Step() = 0;
  // Of the whole, known from the beginning.
  virtual int64_t bytes() const = 0;
  // The complete copy, for reading: a file without a name.
  virtual int descriptor() const = 0;
};

// Of the database DIRECTORY/controller.db that a Store has open. Its moment is this call.
// ResourceExhausted: the directory's disk has no room for it; FailedPrecondition: there is none.
absl::StatusOr<std::unique_ptr<StoreCopy>> BeginStoreCopy(const std::string& directory);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_STORE_STORE_COPY_H_
