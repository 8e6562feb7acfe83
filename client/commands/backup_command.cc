// backup: the controller's state as a file.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::client {
namespace {

constexpr double kPatienceSeconds = 0.25;  // between looks for an interrupt

using Backup = Stream<v1::BackupClusterResponse>;

absl::Status FileError(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int file, const std::string& path, const std::string& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t size = write(file, bytes.data() + written, bytes.size() - written);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return FileError(path);
    written += static_cast<size_t>(size);
  }
  return absl::OkStatus();
}

// All of it, compared with its digest. Returns how many bytes it has.
absl::StatusOr<int64_t> Receive(Backup& backup, int file, const std::string& path,
                                const InterruptScope& interrupts, Terminal& terminal) {
  common::Sha256 digest;
  std::string told;
  int64_t received = 0, total = 0;
  for (;;) {
    v1::BackupClusterResponse piece;
    const Backup::Event event = backup.Next(kPatienceSeconds, &piece);
    if (interrupts.interrupted()) return absl::CancelledError("interrupted");
    if (event == Backup::Event::kEnd) break;
    if (event == Backup::Event::kIdle) continue;
    if (piece.total_bytes() > 0) total = piece.total_bytes();
    if (!piece.digest().empty()) told = piece.digest();
    digest.Add(piece.data().data(), piece.data().size());
    received += static_cast<int64_t>(piece.data().size());
    RETURN_IF_ERROR(WriteAll(file, path, piece.data()));
    terminal.Transient(absl::StrCat(common::FormatBytes(static_cast<double>(received)), " of ",
                                    common::FormatBytes(static_cast<double>(total)), " …"));
  }
  RETURN_IF_ERROR(backup.status());
  if (received != total || told.empty() || told != digest.Finish()) {
    return absl::DataLossError(absl::StrCat(
        path, ": ", received, " of ", total,
        " bytes came, and they are not what the controller sent: nothing was kept — try again"));
  }
  if (fsync(file) != 0) return FileError(path);
  return received;
}

// In its place only when it is whole and durable.
absl::StatusOr<int64_t> Save(Backup& backup, const std::string& path, Terminal& terminal) {
  const InterruptScope interrupts;
  const std::string part = path + ".part";
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return FileError(part);
  auto remove = absl::MakeCleanup([&] { unlink(part.c_str()); });
  const absl::Cleanup closer = [file] { close(file); };
  ASSIGN_OR_RETURN(const int64_t bytes, Receive(backup, file, part, interrupts, terminal));
  if (link(part.c_str(), path.c_str()) != 0) return FileError(path);  // replaces nothing
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || fsync(directory) != 0) return FileError(folder);
  close(directory);
  return bytes;
}

int RunBackup(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.Text("--output");
  if (access(path.c_str(), F_OK) == 0) {
    terminal.Error(
        absl::StrCat("strata backup: ", path,
                     " is there already, and backups replace nothing: name another file"));
    return kExitUsage;
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const auto backup = client->BackupCluster();
  const absl::StatusOr<int64_t> saved = Save(*backup, path, terminal);
  if (absl::IsCancelled(saved.status())) return kExitInterrupted;
  if (!saved.ok()) return FailCall(saved.status(), terminal);
  terminal.Say(absl::StrCat(path, ": the controller's state, ",
                            common::FormatBytes(static_cast<double>(*saved)),
                            "; it holds all specs and paths: keep it as safe as the controller's "
                            "folder (to restore: put it there as controller.db, then start once "
                            "with --restored)"));
  return kExitDone;
}

}  // namespace

Command BackupCommand() {
  Command command;
  command.name = "backup";
  command.usage = "-o FILE";
  command.summary = "writes the controller's state to a file, to restore it from";
  Flag output = {"--output", Flag::Kind::kText, "FILE", "the file, which must not be there yet",
                 "-o"};
  output.required = true;
  command.flags = {std::move(output)};
  command.run = RunBackup;
  return command;
}

}  // namespace strata::client
