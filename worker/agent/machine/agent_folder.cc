#include "worker/agent/machine/agent_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "worker/agent/logic/epoch_fence.h"
#include "worker/agent/machine/process_stat.h"

namespace strata::worker {
namespace {

namespace fs = std::filesystem;
constexpr char kRecordEnding[] = ".epoch";

std::string Stem(const v1::JobEpoch& epoch) {
  return absl::StrCat(ShortJobName(epoch.job()), "-", epoch.epoch());
}

// Records and progress files of one job must not meet those of another one of its name.
std::string OwnStem(const v1::JobEpoch& epoch) {
  return epoch.uid().empty() ? Stem(epoch) : absl::StrCat(Stem(epoch), ".", epoch.uid());
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentFolder>> AgentFolder::Open(const std::string& directory) {
  std::error_code error;
  const std::string path = fs::absolute(directory, error).lexically_normal().string();
  for (const char* const part : {"", "/epochs", "/trainers", "/logs"}) {
    fs::create_directories(path + part, error);
    if (error) return absl::InvalidArgumentError(absl::StrCat(path, part, ": ", error.message()));
  }
  const std::string lock_path = path + "/agent.lock";
  Descriptor lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.is_open()) {
    return absl::InvalidArgumentError(absl::StrCat(lock_path, ": ", strerror(errno)));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": another agent is at work here"));
  }
  std::unique_ptr<AgentFolder> folder(new AgentFolder(path, std::move(lock)));
  RETURN_IF_ERROR(folder->LoadMembership());
  return folder;
}

absl::Status AgentFolder::LoadMembership() {
  const absl::StatusOr<std::string> kept = common::ReadFile(path_ + "/membership");
  if (kept.ok()) {
    if (membership_.ParseFromString(*kept)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, "/membership: damaged"));
  }
  if (!absl::IsNotFound(kept.status())) return kept.status();
  const absl::StatusOr<std::string> term = common::ReadFile(path_ + "/controller_term");
  if (absl::IsNotFound(term.status())) return absl::OkStatus();
  RETURN_IF_ERROR(term.status());
  int64_t number = 0;
  if (!absl::SimpleAtoi(*term, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(path_, "/controller_term: not a number"));
  }
  membership_.set_controller_term(number);
  return absl::OkStatus();
}

AgentFolder::AgentFolder(std::string path, Descriptor lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

std::string AgentFolder::ProgressPath(const v1::JobEpoch& epoch, int rank) const {
  return absl::StrCat(path_, "/trainers/", OwnStem(epoch), "-", rank, ".progress");
}

std::string AgentFolder::LogPath(const v1::JobEpoch& epoch, int rank) const {
  return absl::StrCat(path_, "/logs/", Stem(epoch), "-", rank, ".log");
}

std::string AgentFolder::PlanLogPath(const v1::JobEpoch& epoch) const {
  return absl::StrCat(path_, "/logs/", Stem(epoch), "-plan.log");
}

std::string AgentFolder::RecordPath(const v1::JobEpoch& epoch) const {
  return absl::StrCat(path_, "/epochs/", OwnStem(epoch), kRecordEnding);
}

absl::Status AgentFolder::SetMembership(const v1::AgentMembership& membership) {
  RETURN_IF_ERROR(
      common::ReplaceFile(path_ + "/membership", membership.SerializeAsString(), /*durable=*/true));
  membership_ = membership;
  return absl::OkStatus();
}

absl::Status AgentFolder::SaveRecord(const v1::HeldEpochRecord& record) {
  // The processes that it is about do not outlive the machine: neither need the record.
  return common::ReplaceFile(RecordPath(record.prepare().epoch()), record.SerializeAsString(),
                             /*durable=*/false);
}

std::vector<v1::HeldEpochRecord> AgentFolder::LoadRecords() {
  std::vector<v1::HeldEpochRecord> records;
  const std::string boot = BootId();
  std::error_code error;
  std::vector<std::string> useless;
  for (fs::directory_iterator entry(path_ + "/epochs", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    v1::HeldEpochRecord record;
    const bool usable = absl::EndsWith(path, kRecordEnding) &&
                        record.ParseFromString(common::ReadFile(path).value_or("")) &&
                        RecordPath(record.prepare().epoch()) == path && record.boot_id() == boot &&
                        record.trainers_size() == record.prepare().own_size();
    if (usable) {
      records.push_back(std::move(record));
    } else {
      useless.push_back(path);
    }
  }
  for (const std::string& path : useless) fs::remove(path, error);
  return records;
}

void AgentFolder::RemoveRecord(const v1::HeldEpochRecord& record) {
  const v1::JobEpoch& epoch = record.prepare().epoch();
  std::error_code error;  // what stays behind harms nobody
  fs::remove(RecordPath(epoch), error);
  for (const int rank : record.prepare().own()) fs::remove(ProgressPath(epoch, rank), error);
}

void AgentFolder::PruneLogs() {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> logs;
  for (fs::directory_iterator entry(path_ + "/logs", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    logs.emplace_back(fs::last_write_time(entry->path(), gone), entry->path());
  }
  if (logs.size() <= kLogsKept) return;
  std::sort(logs.begin(), logs.end());
  for (size_t i = 0; i + kLogsKept < logs.size(); ++i) fs::remove(logs[i].second, error);
}

}  // namespace strata::worker
