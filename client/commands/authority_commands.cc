// authority init, certificate issue: a cluster's own authority, offline. No controller is asked.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/views/structured.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "security/authority.h"
#include "security/certificate.h"
#include "security/tls_files.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using security::Authority;
using security::KeyPair;

constexpr char kRootFile[] = "/root.pem";
constexpr char kRootKeyFile[] = "/root.key";
constexpr double kControllerSeconds = 365.0 * 86400;
constexpr double kUserSeconds = 30.0 * 86400;
constexpr size_t kLongestIdentity = 63;

absl::Status CheckAbsent(const std::string& path, const char* remedy) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, ": is there already — ", remedy));
}

// The key first: whoever finds the certificate finds its key too.
absl::Status WritePair(const std::string& prefix, const KeyPair& pair) {
  if (!pair.private_key.empty()) {
    RETURN_IF_ERROR(security::WritePemFile(prefix + ".key", pair.private_key, 0600));
  }
  return security::WritePemFile(prefix + ".pem", pair.certificate, 0644);
}

absl::StatusOr<std::unique_ptr<Authority>> OpenAuthority(const std::string& folder) {
  KeyPair root;
  ASSIGN_OR_RETURN(root.certificate, security::ReadPemFile(folder + kRootFile));
  ASSIGN_OR_RETURN(root.private_key, security::ReadPemFile(folder + kRootKeyFile));
  return Authority::Open(root);
}

absl::Status MakeAuthority(const std::string& folder, const std::string& cluster) {
  for (const char* file : {kRootFile, kRootKeyFile, "/controller.pem", "/controller.key"}) {
    RETURN_IF_ERROR(CheckAbsent(folder + file, "choose another place, or remove it first"));
  }
  const double now = common::WallSeconds();
  ASSIGN_OR_RETURN(const KeyPair root, Authority::MakeRoot(cluster, now));
  ASSIGN_OR_RETURN(const auto authority, Authority::Open(root));
  ASSIGN_OR_RETURN(const KeyPair controller,
                   authority->Issue(security::kControllerPath, now, kControllerSeconds));
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": cannot be made (", error.message(), ")"));
  }
  RETURN_IF_ERROR(WritePair(folder + "/root", root));
  return WritePair(folder + "/controller", controller);
}

int AuthorityInit(const Arguments& arguments, Terminal& terminal) {
  if (arguments.positional()[0] != "init") {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("strata authority ", arguments.positional()[0],
                                                ": unknown — strata authority init DIR")),
        terminal);
  }
  const std::string folder = Absolute(arguments.positional()[1]);
  const absl::Status made = MakeAuthority(folder, arguments.Text("--cluster"));
  if (!made.ok()) return Fail(made, terminal);
  const auto authority = OpenAuthority(folder);
  if (!authority.ok()) return Fail(authority.status(), terminal);
  const std::string output = arguments.Text("--output", "table");
  if (IsStructured(output)) {
    terminal.Out(ToText({{"directory", folder},
                         {"cluster", (*authority)->cluster()},
                         {"authority_digest", (*authority)->key_digest()}},
                        output));
  } else {
    terminal.Out(output == "name" ? folder + "\n" : absl::StrCat((*authority)->key_digest(), "\n"));
  }
  terminal.Say(
      absl::StrCat("next: strata-controller --tls-certificate ", folder,
                   "/controller.pem --tls-key ", folder, "/controller.key --tls-authority ", folder,
                   "/root.pem …; strata certificate issue users/NAME", " --authority ", folder,
                   "; keep ", folder, kRootKeyFile, " where nobody else reads it"));
  return kExitDone;
}

// user/NAME of users/NAME, node/NAME of nodes/NAME, controller.
absl::StatusOr<std::string> PathOf(const std::string& identity) {
  absl::string_view name = identity;
  std::string kind;
  if (absl::ConsumePrefix(&name, "users/")) kind = "user/";
  if (absl::ConsumePrefix(&name, "nodes/")) kind = "node/";
  const std::string path = absl::StrCat(kind, name);
  const bool known = !kind.empty() || identity == security::kControllerPath;
  const bool plain = name.size() <= kLongestIdentity && !absl::StrContains(name, '/') &&
                     security::ParseSpiffeId(absl::StrCat("spiffe://c/", path)).ok();
  if (known && plain) return path;
  return absl::InvalidArgumentError(
      absl::StrCat(identity,
                   ": nobody's name — write users/NAME, nodes/NAME or controller, NAME of "
                   "at most 63 letters, digits, '-', '.' and '_'"));
}

double LifeOf(const Arguments& arguments, const std::string& path) {
  const double usual = path == security::kControllerPath ? kControllerSeconds : kUserSeconds;
  return arguments.Seconds("--ttl").value_or(usual);
}

struct Issued {
  KeyPair pair;  // without a key where somebody else has it
  std::string prefix;
  security::CertificateView view;
};

absl::StatusOr<Issued> Issue(const Arguments& arguments) {
  const std::string& identity = arguments.positional()[1];
  Issued issued;
  ASSIGN_OR_RETURN(const std::string path, PathOf(identity));
  const double seconds = LifeOf(arguments, path);
  ASSIGN_OR_RETURN(const auto authority, OpenAuthority(Absolute(arguments.Text("--authority"))));
  issued.prefix = Absolute(arguments.Text("--out", identity.substr(identity.find('/') + 1)));
  if (!arguments.Has("--replace")) {
    for (const char* suffix : {".pem", ".key"}) {
      RETURN_IF_ERROR(CheckAbsent(issued.prefix + suffix,
                                  "write elsewhere with --out, or over it with --replace"));
    }
  }
  const double now = common::WallSeconds();
  if (arguments.Has("--request")) {
    ASSIGN_OR_RETURN(const std::string request,
                     security::ReadPemFile(Absolute(arguments.Text("--request"))));
    ASSIGN_OR_RETURN(issued.pair.certificate, authority->Sign(request, path, now, seconds));
  } else {
    ASSIGN_OR_RETURN(issued.pair, authority->Issue(path, now, seconds));
  }
  RETURN_IF_ERROR(WritePair(issued.prefix, issued.pair));
  ASSIGN_OR_RETURN(issued.view, security::ReadCertificate(issued.pair.certificate));
  return issued;
}

int CertificateIssue(const Arguments& arguments, Terminal& terminal) {
  if (arguments.positional()[0] != "issue") {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("strata certificate ", arguments.positional()[0],
                                                ": unknown — strata certificate issue users/NAME")),
        terminal);
  }
  const absl::StatusOr<Issued> issued = Issue(arguments);
  if (!issued.ok()) return Fail(issued.status(), terminal);
  const std::string output = arguments.Text("--output", "table");
  const std::string certificate = issued->prefix + ".pem";
  if (IsStructured(output)) {
    terminal.Out(
        ToText({{"identity", arguments.positional()[1]},
                {"certificate", certificate},
                {"key", issued->pair.private_key.empty() ? Json() : Json(issued->prefix + ".key")},
                {"expire_time", security::FormatUnixTime(issued->view.end)}},
               output));
  } else {
    terminal.Out(certificate + "\n");
  }
  terminal.Say(absl::StrCat(issued->view.id.ToString(), " until ",
                            security::FormatUnixTime(issued->view.end)));
  return kExitDone;
}

}  // namespace

std::vector<Command> AuthorityCommands() {
  constexpr auto kText = Flag::Kind::kText;
  const auto required = [](Flag flag) {
    flag.required = true;
    return flag;
  };
  return {
      ClusterCommand(
          "authority", "init DIR --cluster NAME",
          "Make a cluster's authority, and its controller's certificate", {"init", "DIR"}, 2,
          {required({"--cluster", kText, "NAME", "as in spiffe://NAME/…"})}, AuthorityInit),
      ClusterCommand(
          "certificate", "issue users/NAME|nodes/NAME|controller --authority DIR",
          "Issue a certificate from an authority's folder", {"issue", "WHO"}, 2,
          {required({"--authority", kText, "DIR", "that strata authority init made"}),
           {"--out", kText, "PREFIX", "of the files PREFIX.pem and PREFIX.key (./NAME)"},
           {"--ttl", Flag::Kind::kTime, "TIME",
            "how long it is valid, such as 12h (720h; controller: 8760h)", "", 1},
           {"--request", kText, "FILE", "for this PKCS #10 request's key, instead of a new one"},
           {"--replace", Flag::Kind::kSwitch, "", "also where such files are there already"}},
          CertificateIssue),
  };
}

}  // namespace strata::client
