// A backup of the store as BackupCluster streams it.
#ifndef STRATA_CONTROLLER_SERVICE_BACKUP_STREAM_H_
#define STRATA_CONTROLLER_SERVICE_BACKUP_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/sha256.h"
#include "controller/service/files/source.h"
#include "controller/store/store_copy.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::controller {

// One client's. Used by one thread at a time, off the reactor's.
class BackupStream {
 public:
  // ResourceExhausted (BACKUP_IN_PROGRESS): another one is under way, for each needs the store's
  // size on its disk. `busy`: shared by all.
  static absl::StatusOr<std::shared_ptr<BackupStream>> Make(
      const std::string& directory, const std::shared_ptr<std::atomic<bool>>& busy);
  ~BackupStream() { Release(); }
  BackupStream(const BackupStream&) = delete;
  BackupStream& operator=(const BackupStream&) = delete;

  // What comes next: an empty message while the copy is made, then its bytes; the last one has the
  // digest.
  absl::StatusOr<Piece<v1::BackupClusterResponse>> Next();

 private:
  BackupStream(const std::string& directory, std::shared_ptr<std::atomic<bool>> busy)
      : directory_(directory), busy_(std::move(busy)) {}

  absl::StatusOr<v1::BackupClusterResponse> Read();
  // Before the last word goes out, so that whoever heard it may ask for another one.
  void Release() {
    copy_.reset();
    if (!std::exchange(released_, true)) *busy_ = false;
  }

  const std::string directory_;
  const std::shared_ptr<std::atomic<bool>> busy_;
  std::unique_ptr<StoreCopy> copy_;  // begun with the first Next
  bool copied_ = false;
  int64_t sent_ = 0;
  common::Sha256 digest_;
  bool ended_ = false;
  bool released_ = false;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_BACKUP_STREAM_H_
