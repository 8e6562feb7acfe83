#include "controller/service/backup_stream.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::shared_ptr<BackupStream>> BackupStream::Make(
    const std::string& directory, const std::shared_ptr<std::atomic<bool>>& busy) {
  if (busy->exchange(true)) {
    return Refusal(absl::StatusCode::kResourceExhausted, "BACKUP_IN_PROGRESS",
                   "another backup is being made: try again when it is done");
  }
  return std::shared_ptr<BackupStream>(new BackupStream(directory, busy));
}

absl::StatusOr<Piece<v1::BackupClusterResponse>> BackupStream::Next() {
  absl::StatusOr<v1::BackupClusterResponse> message = Read();
  if (!message.ok() || ended_) Release();
  RETURN_IF_ERROR(message.status());
  return Piece<v1::BackupClusterResponse>{{*std::move(message)}, ended_};
}

absl::StatusOr<v1::BackupClusterResponse> BackupStream::Read() {
  v1::BackupClusterResponse message;
  if (copy_ == nullptr) {
    ASSIGN_OR_RETURN(copy_, BeginStoreCopy(directory_));
  }
  if (!copied_) {
    ASSIGN_OR_RETURN(copied_, copy_->Step());
    return message;
  }
  std::string bytes(kPieceBytes, '\0');
  const ssize_t size = pread(copy_->descriptor(), bytes.data(), bytes.size(), sent_);
  if (size < 0) return absl::InternalError(absl::StrCat("the copy: ", strerror(errno)));
  bytes.resize(static_cast<size_t>(size));
  if (sent_ == 0) message.set_total_bytes(copy_->bytes());
  digest_.Add(bytes.data(), bytes.size());
  sent_ += size;
  *message.mutable_data() = std::move(bytes);
  ended_ = size == 0 || sent_ >= copy_->bytes();
  if (ended_) message.set_digest(digest_.Finish());
  return message;
}

}  // namespace strata::controller
