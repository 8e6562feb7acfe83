#include "controller/store/store_copy.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

constexpr int kPagesPerStep = 1024;
constexpr int kCopyBusyMilliseconds = 2000;
// That commits still find room beside the copy.
constexpr uint64_t kRoomBeside = uint64_t{128} << 20;

struct CloseConnection {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Connection = std::unique_ptr<sqlite3, CloseConnection>;

absl::StatusOr<Connection> Connect(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw,
                                   flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Connection connection(raw);
  if (raw == nullptr) return absl::InternalError(absl::StrCat(path, ": out of memory"));
  if (code != SQLITE_OK) {
    return absl::InternalError(absl::StrCat(path, ": ", sqlite3_errmsg(raw)));
  }
  sqlite3_busy_timeout(raw, kCopyBusyMilliseconds);
  return connection;
}

absl::Status Run(sqlite3* database, const char* sql) {
  char* error = nullptr;
  if (sqlite3_exec(database, sql, nullptr, nullptr, &error) == SQLITE_OK) return absl::OkStatus();
  const std::string text = error == nullptr ? "" : error;
  sqlite3_free(error);
  return absl::InternalError(absl::StrCat(sql, ": ", text));
}

absl::StatusOr<int64_t> AskNumber(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK) {
    return absl::InternalError(absl::StrCat(sql, ": ", sqlite3_errmsg(database)));
  }
  const bool found = sqlite3_step(statement) == SQLITE_ROW;
  const int64_t number = found ? sqlite3_column_int64(statement, 0) : 0;
  sqlite3_finalize(statement);
  if (!found) return absl::InternalError(absl::StrCat(sql, ": ", sqlite3_errmsg(database)));
  return number;
}

// The connection's open transaction keeps the moment: else each commit would begin the copy anew.
class SqliteCopy final : public StoreCopy {
 public:
  explicit SqliteCopy(const std::string& directory) : path_(directory + "/" + kPrefix + "XXXXXX") {}
  ~SqliteCopy() override {
    if (copying_ != nullptr) sqlite3_backup_finish(copying_);
    to_.reset();
    if (file_ < 0) return;
    close(file_);
    if (!complete_) unlink(path_.c_str());
  }

  absl::Status Begin(const std::string& directory) {
    const std::string store = directory + "/controller.db";
    if (access(store.c_str(), F_OK) != 0) {
      return absl::FailedPreconditionError(absl::StrCat(store, ": ", strerror(errno)));
    }
    ASSIGN_OR_RETURN(from_, Connect(store, SQLITE_OPEN_READONLY));
    RETURN_IF_ERROR(Run(from_.get(), "BEGIN"));
    ASSIGN_OR_RETURN(const int64_t pages, AskNumber(from_.get(), "PRAGMA page_count"));
    ASSIGN_OR_RETURN(const int64_t page, AskNumber(from_.get(), "PRAGMA page_size"));
    bytes_ = pages * page;
    RETURN_IF_ERROR(CheckRoom(directory));
    file_ = mkostemp(path_.data(), O_CLOEXEC);
    if (file_ < 0) return absl::InternalError(absl::StrCat(path_, ": ", strerror(errno)));
    ASSIGN_OR_RETURN(to_, Connect(path_, SQLITE_OPEN_READWRITE));
    // Who reads it compares its digest: nothing needs to survive here.
    RETURN_IF_ERROR(Run(to_.get(), "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"));
    copying_ = sqlite3_backup_init(to_.get(), "main", from_.get(), "main");
    if (copying_ != nullptr) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(path_, ": ", sqlite3_errmsg(to_.get())));
  }

  absl::StatusOr<bool> Step() override {
    if (complete_) return true;
    const int code = sqlite3_backup_step(copying_, kPagesPerStep);
    if (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED) return false;
    sqlite3_backup_finish(copying_);
    copying_ = nullptr;
    if (code == SQLITE_FULL) {
      return absl::ResourceExhaustedError(absl::StrCat(path_, ": the disk is full"));
    }
    if (code != SQLITE_DONE) {
      return absl::InternalError(absl::StrCat(path_, ": ", sqlite3_errstr(code)));
    }
    to_.reset();
    from_.reset();
    struct stat info = {};
    if (fstat(file_, &info) != 0 || info.st_size != bytes_) {
      return absl::InternalError(
          absl::StrCat(path_, ": has ", info.st_size, " bytes, not ", bytes_));
    }
    unlink(path_.c_str());
    complete_ = true;
    return true;
  }

  int64_t bytes() const override { return bytes_; }
  int descriptor() const override { return file_; }

 private:
  absl::Status CheckRoom(const std::string& directory) const {
    struct statvfs info = {};
    if (statvfs(directory.c_str(), &info) != 0) return absl::OkStatus();  // writing will tell
    const uint64_t there = uint64_t{info.f_bavail} * info.f_frsize;
    const uint64_t needed = static_cast<uint64_t>(bytes_) + kRoomBeside;
    if (there >= needed) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(directory, ": a copy of the state needs ",
                                                     needed >> 20, " MiB there, ", there >> 20,
                                                     " MiB are free"));
  }

  std::string path_;
  Connection from_, to_;
  sqlite3_backup* copying_ = nullptr;
  int file_ = -1;
  int64_t bytes_ = 0;
  bool complete_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StoreCopy>> BeginStoreCopy(const std::string& directory) {
  auto copy = std::make_unique<SqliteCopy>(directory);
  RETURN_IF_ERROR(copy->Begin(directory));
  return std::unique_ptr<StoreCopy>(std::move(copy));
}

}  // namespace strata::controller
