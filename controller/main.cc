// strata-controller: the daemon that holds a cluster's jobs and nodes.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "controller/access/identity.h"
#include "controller/service/controller.h"
#include "controller/service/store_preparation.h"
#include "controller/service/transport/listen_address.h"
#include "nlohmann/json.hpp"
#include "security/tls_files.h"
#include "topology/import/topology_file.h"

namespace strata::controller {
namespace {

constexpr char kVersion[] = "0.1.0";
constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

struct Flags {
  std::vector<std::string> listen = {"127.0.0.1:7070"};
  std::string socket_group;
  security::TlsFiles tls;
  std::string authority_key;
  double node_certificate_seconds = 86400;
  bool munge = false;
  std::string munge_socket;
  std::string metrics_listen = "127.0.0.1:0";
  security::TlsFiles metrics_tls;
  std::string directory;
  std::string ready_file;
  std::string topology;
  StorePreparation preparation;
  bool insecure_listen = false;
  bool metrics_insecure_listen = false;
  std::vector<std::string> admins;
  int audit_records = 10'000;
  std::optional<bool> reflection;  // not said: on loopback only
};

void HandleSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_asked = true; };
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);  // a write that fails is told by the store
}

// Each agent and each client is a connection: as many as this process may have at all.
void RaiseOpenFiles() {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status WriteReadyFile(const std::string& path, const Controller& controller) {
  const nlohmann::json content = {{"pid", getpid()},
                                  {"address", controller.address()},
                                  {"addresses", controller.addresses()},
                                  {"metrics_address", controller.metrics_address()}};
  const std::string text = content.dump() + "\n";
  return common::ReplaceFile(path, text, /*durable=*/false);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "strata-controller: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

int Refuse(const std::string& what) {
  std::fprintf(stderr, "strata-controller: %s — strata-controller --help tells what there is\n",
               what.c_str());
  return kUsage;
}

// Without protection only this machine may connect, unless its owner insists. `what`: what whoever
// connects could do, and what to do about it.
absl::Status CheckLoopback(const std::string& text, const char* flag, bool insists,
                           const char* what) {
  const auto address = ParseListenAddress(text);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", address.status().message()));
  }
  if (insists || address->is_loopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", text, ": everybody who reaches this address could ", what));
}

absl::Status CheckAddresses(const Flags& flags) {
  const security::TlsFiles& tls = flags.tls;
  const bool any = tls.enabled() || !tls.certificate.empty() || !tls.key.empty();
  if (!flags.authority_key.empty() && !tls.enabled()) {
    return absl::InvalidArgumentError("--tls-authority-key needs --tls-authority");
  }
  if (any && (!tls.enabled() || tls.certificate.empty() || tls.key.empty())) {
    return absl::InvalidArgumentError(
        "TLS needs all three: --tls-certificate, --tls-key and --tls-authority");
  }
  for (const std::string& listen : flags.listen) {
    const bool safe = flags.tls.enabled() || flags.insecure_listen;
    RETURN_IF_ERROR(CheckLoopback(
        listen, "--listen", safe,
        "run jobs (connections are neither encrypted nor authenticated): give --tls-certificate, "
        "--tls-key and --tls-authority, listen on 127.0.0.1, or add --insecure-listen"));
  }
  const security::TlsFiles& page = flags.metrics_tls;
  if (page.certificate.empty() != page.key.empty() ||
      (page.enabled() && page.certificate.empty())) {
    return absl::InvalidArgumentError(
        "TLS of the metrics' page needs --metrics-tls-certificate and --metrics-tls-key; "
        "--metrics-tls-authority says whose readers are believed");
  }
  RETURN_IF_ERROR(CheckLoopback(
      flags.metrics_listen, "--metrics-listen", page.enabled() || flags.metrics_insecure_listen,
      "read the names and figures of all jobs and nodes: give --metrics-tls-certificate, "
      "--metrics-tls-key and --metrics-tls-authority, listen on 127.0.0.1, or add "
      "--metrics-insecure-listen"));
  if (ParseListenAddress(flags.metrics_listen)->is_unix()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-listen ", flags.metrics_listen, ": use HOST:PORT"));
  }
  return absl::OkStatus();
}

// Whether only this machine can connect.
bool IsLocal(const Flags& flags) {
  return std::all_of(flags.listen.begin(), flags.listen.end(), [](const std::string& listen) {
    return ParseListenAddress(listen)->is_loopback();
  });
}

// Anybody on this machine may connect, and nothing tells who it is.
void WarnOfOpenAddresses(const Controller& controller) {
  for (const std::string& address : controller.addresses()) {
    if (ParseListenAddress(address)->is_unix()) continue;
    std::fprintf(stderr,
                 "strata-controller: WARNING: nothing tells callers apart on %s: everybody who "
                 "reaches it may do everything (--listen unix:PATH or --tls-certificate would)\n",
                 address.c_str());
  }
}

// Levels and links of the file; its nodes say themselves where they are.
absl::Status ReadMap(const std::string& file, topology::Description* map) {
  if (file.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, topology::ReadTopologyText(file));
  ASSIGN_OR_RETURN(*map, topology::ReadTopologyFile(text, file));
  map->nodes.clear();
  return absl::OkStatus();
}

int Serve(const Flags& flags) {
  if (const absl::Status allowed = CheckAddresses(flags); !allowed.ok()) {
    Fail(allowed);
    return kUsage;
  }
  Controller::Options options;
  if (const absl::Status read = ReadMap(flags.topology, &options.map); !read.ok()) {
    Fail(read);
    return kUsage;
  }
  HandleSignals();
  RaiseOpenFiles();
  umask(0077);  // state and logs are their owner's
  // The distribution's Abseil looks for deadlocks at each of gRPC's locks: a tenth of what a
  // heartbeat costs.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC's own words would stand before ours about a taken port.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  std::error_code error;
  options.listen = flags.listen;
  options.socket_group = flags.socket_group;
  options.tls = flags.tls;
  options.authority_key = flags.authority_key;
  options.node_certificate_seconds = flags.node_certificate_seconds;
  options.munge = flags.munge || !flags.munge_socket.empty();
  options.munge_socket = flags.munge_socket;
  options.metrics_listen = flags.metrics_listen;
  options.metrics_tls = flags.metrics_tls;
  options.preparation = flags.preparation;
  options.reflection = flags.reflection.value_or(IsLocal(flags));
  options.directory = std::filesystem::absolute(flags.directory, error).lexically_normal().string();
  options.version = kVersion;
  options.standing_admins = flags.admins;
  options.audit_records = static_cast<size_t>(flags.audit_records);
  options.audit_log = stderr;
  if (error) return Fail(absl::InternalError(absl::StrCat(flags.directory, ": ", error.message())));

  const common::MonotonicClock clock{};
  const auto controller = Controller::Start(options, &clock);
  if (!controller.ok()) return Fail(controller.status());
  if (!flags.ready_file.empty()) {
    // A full disk is no reason not to serve what is running.
    const absl::Status written = WriteReadyFile(flags.ready_file, **controller);
    if (!written.ok()) Fail(written);
  }
  std::printf("strata-controller %s: serving on %s, metrics on %s://%s/metrics, state in %s\n",
              kVersion, absl::StrJoin((*controller)->addresses(), ", ").c_str(),
              flags.metrics_tls.certificate.empty() ? "http" : "https",
              (*controller)->metrics_address().c_str(), options.directory.c_str());
  std::fflush(stdout);
  if (!(*controller)->tells_callers_apart()) WarnOfOpenAddresses(**controller);
  const absl::Status status = (*controller)->Run(stop_asked);
  if (!flags.ready_file.empty()) unlink(flags.ready_file.c_str());
  return status.ok() ? 0 : Fail(status);
}

void AddTlsOptions(CLI::App& app, Flags& flags) {
  app.add_option("--tls-certificate", flags.tls.certificate,
                 "PEM file: this controller's certificate (URI spiffe://CLUSTER/controller), then "
                 "those up to the root; HOST:PORT is served with TLS then");
  app.add_option("--tls-key", flags.tls.key, "PEM file: its private key");
  app.add_option("--tls-authority", flags.tls.authority,
                 "PEM file: the authorities whose clients and agents are believed");
  app.add_option("--metrics-tls-certificate", flags.metrics_tls.certificate,
                 "PEM file: the certificate of the Prometheus page, then those up to the root; it "
                 "is served with TLS then");
  app.add_option("--metrics-tls-key", flags.metrics_tls.key, "PEM file: its private key");
  app.add_option("--metrics-tls-authority", flags.metrics_tls.authority,
                 "PEM file: whoever reads the page must show a certificate of one of these "
                 "authorities, and have the role metrics");
  app.add_option("--tls-authority-key", flags.authority_key,
                 "PEM file: the private key of the first authority: lets nodes enrol by token");
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Holds a Strata cluster's jobs and nodes: the API for users, sessions for agents.",
               "strata-controller");
  app.add_option("--listen", flags.listen,
                 "HOST:PORT of the API, port 0: any free one; or unix:PATH; may be repeated")
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--socket-group", flags.socket_group,
                 "members of this group may use the Unix sockets too (0660); else their user only");
  app.add_option("--metrics-listen", flags.metrics_listen, "HOST:PORT of the Prometheus page")
      ->capture_default_str();
  app.add_option("--dir", flags.directory,
                 "REQUIRED: where state is kept; made when it is missing");
  app.add_option("--ready-file", flags.ready_file,
                 "JSON written once serving: {pid, address, addresses, metrics_address}");
  app.add_option("--topology", flags.topology,
                 "the cluster's levels and links: a topology file, whose nodes are not read");
  AddTlsOptions(app, flags);
  app.add_option("--node-certificate-seconds", flags.node_certificate_seconds,
                 "how long certificates of nodes that enrol are valid")
      ->check(CLI::Range(1.0, 366.0 * 86400))
      ->capture_default_str();
  app.add_flag("--restored", flags.preparation.restored,
               "the state in --dir was put back from a backup: once, at the first start with it");
  app.add_option("--discard-record", flags.preparation.discard,
                 "TABLE/KEY of a record that cannot be read and may go for good; may be repeated");
  app.add_flag("--munge", flags.munge,
               "users may show MUNGE credentials (STRATA_AUTH=munge); without TLS they must");
  app.add_option("--munge-socket", flags.munge_socket,
                 "of the MUNGE daemon, if it has another one");
  app.add_flag("--insecure-listen", flags.insecure_listen,
               "allow addresses that other machines can reach, without any protection");
  app.add_flag("--metrics-insecure-listen", flags.metrics_insecure_listen,
               "allow a metrics address that other machines can reach: whoever does reads it all");
  app.add_option("--admin", flags.admins,
                 "users/NAME: an admin whatever the policy says; may be repeated")
      ->check([](const std::string& text) {
        const auto admin = ParseIdentity(text, "tls");
        const bool user = admin.ok() && admin->kind == Identity::Kind::kUser;
        return user ? std::string() : absl::StrCat(text, " is no user: write users/NAME");
      });
  app.add_option("--audit-records", flags.audit_records,
                 "records of the audit trail that are kept: who changed what, and who was refused")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--reflection,!--no-reflection", flags.reflection,
               "tell clients what the services look like; without it: on loopback only");
  app.set_version_flag("--version", std::string("strata-controller ") + kVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Refuse(error.what());
  }
  if (flags.directory.empty()) return Refuse("--dir: missing: it says where state is kept");
  return Serve(flags);
}

}  // namespace
}  // namespace strata::controller

int main(int argc, char** argv) { return strata::controller::Main(argc, argv); }
