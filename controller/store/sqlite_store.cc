// Store on SQLite. One table `records` with the primary key (table_name, key).
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/store/directory_lock.h"
#include "controller/store/store.h"
#include "controller/store/store_copy.h"

namespace strata::controller {
namespace {

// "Stra": tells our files from other programs' (`file` prints it).
constexpr int kApplicationId = 0x53747261;
constexpr int kSchemaVersion = 1;
constexpr int kBusyMilliseconds = 2000;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

bool IsDamage(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB;
}

// Of backups that a process was making when it died.
void RemoveUnfinishedCopies(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code left;  // what stays harms nobody
    if (name.rfind(StoreCopy::kPrefix, 0) == 0) std::filesystem::remove(entry->path(), left);
  }
}

class SqliteStore final : public Store {
 public:
  SqliteStore(DirectoryLock lock, std::string path)
      : lock_(std::move(lock)), path_(std::move(path)) {}

  absl::Status OpenDatabase();
  absl::Status Commit(absl::Span<const Write> writes) override;
  absl::StatusOr<std::vector<Write>> Load() override;

 private:
  // The last error of the connection as a status that names the file.
  absl::Status Error(const char* action) const;
  absl::Status Damaged(const std::string& what) const;
  absl::Status Execute(const char* sql);
  absl::StatusOr<Statement> Prepare(const char* sql);
  // The first column of the first row.
  absl::StatusOr<std::string> Ask(const char* sql);
  absl::Status CheckIntegrity();
  absl::Status CheckSchema();
  absl::Status WriteAll(absl::Span<const Write> writes);
  absl::Status Apply(const Write& write);

  DirectoryLock lock_;
  const std::string path_;
  Database database_;
  Statement upsert_;  // after database_: destroyed before it
  Statement erase_;
  absl::Status failed_;  // the error after which nothing is tried any more
};

absl::Status SqliteStore::Error(const char* action) const {
  const int code = sqlite3_extended_errcode(database_.get());
  const std::string text =
      absl::StrCat(path_, ": ", sqlite3_errmsg(database_.get()), " (", action, ", SQLite ", code,
                   sqlite3_system_errno(database_.get()) != 0
                       ? absl::StrCat(", errno ", sqlite3_system_errno(database_.get()))
                       : std::string(),
                   ")");
  if (IsDamage(code)) return Damaged(text);
  if ((code & 0xff) == SQLITE_FULL) {
    return absl::ResourceExhaustedError(absl::StrCat("the disk is full: ", text));
  }
  return absl::InternalError(text);
}

absl::Status SqliteStore::Damaged(const std::string& what) const {
  return absl::DataLossError(
      absl::StrCat(path_, " is damaged: ", what,
                   " — put back a copy of it, or move it away to begin with an empty cluster"));
}

absl::Status SqliteStore::Execute(const char* sql) {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return Error(sql);
  }
  return absl::OkStatus();
}

absl::StatusOr<Statement> SqliteStore::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                         nullptr) != SQLITE_OK) {
    return Error(sql);
  }
  return Statement(statement);
}

absl::StatusOr<std::string> SqliteStore::Ask(const char* sql) {
  ASSIGN_OR_RETURN(const Statement statement, Prepare(sql));
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return Error(sql);
  const unsigned char* text = sqlite3_column_text(statement.get(), 0);
  return std::string(text == nullptr ? "" : reinterpret_cast<const char*>(text));
}

absl::Status SqliteStore::OpenDatabase() {
  // Its log and shared memory get the same mode. One that an older release made is closed, too.
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) {
    for (const char* more : {"", "-wal", "-shm"}) chmod(absl::StrCat(path_, more).c_str(), 0600);
    close(file);
  }
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(
      path_.c_str(), &database,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  database_.reset(database);
  if (database == nullptr) return absl::InternalError(absl::StrCat(path_, ": out of memory"));
  if (code != SQLITE_OK) return Error("open");
  sqlite3_busy_timeout(database, kBusyMilliseconds);
  RETURN_IF_ERROR(CheckIntegrity());
  ASSIGN_OR_RETURN(const std::string mode, Ask("PRAGMA journal_mode=WAL"));
  if (mode != "wal") {
    return absl::InternalError(absl::StrCat(path_, ": no write-ahead log on this file system (",
                                            mode, "): use a local disk"));
  }
  RETURN_IF_ERROR(Execute("PRAGMA synchronous=FULL; PRAGMA journal_size_limit=16777216"));
  RETURN_IF_ERROR(CheckSchema());
  ASSIGN_OR_RETURN(upsert_, Prepare("INSERT INTO records (table_name, key, value) VALUES (?, ?, ?) "
                                    "ON CONFLICT DO UPDATE SET value = excluded.value"));
  ASSIGN_OR_RETURN(erase_, Prepare("DELETE FROM records WHERE table_name = ? AND key = ?"));
  return absl::OkStatus();
}

absl::Status SqliteStore::CheckIntegrity() {
  ASSIGN_OR_RETURN(const std::string found, Ask("PRAGMA integrity_check(1)"));
  return found == "ok" ? absl::OkStatus() : Damaged(found);
}

absl::Status SqliteStore::CheckSchema() {
  ASSIGN_OR_RETURN(const std::string application, Ask("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const std::string version, Ask("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const std::string tables, Ask("SELECT count(*) FROM sqlite_schema"));
  if (application == "0" && version == "0" && tables == "0") {
    return Execute(absl::StrCat("BEGIN IMMEDIATE;"
                                "CREATE TABLE records (table_name TEXT NOT NULL, "
                                "key TEXT NOT NULL, value BLOB NOT NULL, "
                                "PRIMARY KEY (table_name, key)) STRICT;"
                                "PRAGMA application_id=",
                                kApplicationId, ";PRAGMA user_version=", kSchemaVersion, ";COMMIT")
                       .c_str());
  }
  if (application != absl::StrCat(kApplicationId)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is a database of another program (application_id ", application,
                     "): choose another --dir"));
  }
  if (version != absl::StrCat(kSchemaVersion)) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " has schema version ", version,
                                                      ", this program knows ", kSchemaVersion,
                                                      ": use the release that wrote it"));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::Apply(const Write& write) {
  sqlite3_stmt* statement = write.erase ? erase_.get() : upsert_.get();
  sqlite3_reset(statement);
  int code = sqlite3_bind_text64(statement, 1, write.table.data(), write.table.size(),
                                 SQLITE_STATIC, SQLITE_UTF8);
  if (code == SQLITE_OK) {
    code = sqlite3_bind_text64(statement, 2, write.key.data(), write.key.size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  }
  if (code == SQLITE_OK && !write.erase) {
    code = sqlite3_bind_blob64(statement, 3, write.value.data(), write.value.size(), SQLITE_STATIC);
  }
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  const absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : Error("write");
  sqlite3_reset(statement);
  return status;
}

absl::Status SqliteStore::WriteAll(absl::Span<const Write> writes) {
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  for (const Write& write : writes) RETURN_IF_ERROR(Apply(write));
  return Execute("COMMIT");
}

absl::Status SqliteStore::Commit(absl::Span<const Write> writes) {
  if (!failed_.ok()) return failed_;
  if (writes.empty()) return absl::OkStatus();
  const absl::Status status = WriteAll(writes);
  if (status.ok()) return status;
  // Some errors have rolled back already.
  const bool open = sqlite3_get_autocommit(database_.get()) == 0;
  const bool rolled_back = !open || Execute("ROLLBACK").ok();
  if (absl::IsResourceExhausted(status) && rolled_back) return status;
  failed_ = absl::UnavailableError(status.message());
  return failed_;
}

absl::StatusOr<std::vector<Write>> SqliteStore::Load() {
  ASSIGN_OR_RETURN(const Statement statement,
                   Prepare("SELECT table_name, key, value FROM records ORDER BY table_name, key"));
  const auto column = [&](int index) {
    const void* bytes = sqlite3_column_blob(statement.get(), index);
    const int size = sqlite3_column_bytes(statement.get(), index);
    return std::string(static_cast<const char*>(bytes), bytes == nullptr ? 0 : size);
  };
  std::vector<Write> records;
  int code = SQLITE_OK;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    records.push_back({column(0), column(1), column(2)});
  }
  if (code != SQLITE_DONE) return Error("read");
  return records;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& directory) {
  ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Take(directory));
  RemoveUnfinishedCopies(directory);
  auto store = std::make_unique<SqliteStore>(std::move(lock), directory + "/controller.db");
  RETURN_IF_ERROR(store->OpenDatabase());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace strata::controller
