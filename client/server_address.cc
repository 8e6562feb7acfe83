#include "client/server_address.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string ServerAddress::ToString() const {
  if (is_unix()) return absl::StrCat(kUnixPrefix, path);
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

bool ServerAddress::is_loopback() const {
  return is_unix() || host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

ServerAddress ServerAddress::Reached() const {
  ServerAddress reached = *this;
  if (host == "0.0.0.0") reached.host = "127.0.0.1";
  if (host == "::") reached.host = "::1";
  return reached;
}

absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("not a server address: ", spec::Shown(text, 100),
                                                   " (", why, ") — write HOST:PORT or unix:PATH"));
  };
  if (absl::string_view path = text; absl::ConsumePrefix(&path, kUnixPrefix)) {
    if (path.empty()) return refuse("the path is missing");
    if (path.size() > kLongestSocketPath) {
      return refuse(absl::StrCat("the path is ", path.size(), " bytes long, and a socket's is ",
                                 kLongestSocketPath, " at most"));
    }
    return ServerAddress{"", 0, std::string(path)};
  }
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return refuse("the port is missing");
  absl::string_view host = text.substr(0, colon);
  if (!host.empty() && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return refuse("an IPv6 address needs brackets");
  }
  const absl::string_view digits = text.substr(colon + 1);
  int port = 0;
  if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) {
    return refuse(absl::StrCat("the port is ", spec::Shown(digits, 20), ", not 1 to 65535"));
  }
  if (host.empty()) return refuse("the host is missing");
  return ServerAddress{std::string(host), static_cast<uint16_t>(port)};
}

std::string RememberedServerFile() {
  std::string state = Variable("XDG_STATE_HOME");
  if (state.empty()) {
    const std::string home = Variable("HOME");
    if (home.empty()) return "";
    state = home + "/.local/state";
  }
  return state + "/strata/server";
}

RememberedCluster ReadRememberedCluster() {
  RememberedCluster found;
  std::ifstream stream(RememberedServerFile());
  std::getline(stream, found.server);
  std::getline(stream, found.directory);
  found.server = std::string(absl::StripAsciiWhitespace(found.server));
  return found;
}

absl::Status RememberCluster(const RememberedCluster& cluster) {
  const std::string file = RememberedServerFile();
  if (file.empty()) {
    return absl::UnknownError("neither HOME nor XDG_STATE_HOME is set: use --server");
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const std::string temporary = absl::StrCat(file, ".", getpid(), ".new");
  std::ofstream stream(temporary, std::ios::trunc);
  stream << cluster.server << "\n" << cluster.directory << "\n";
  stream.close();
  if (!stream.fail()) std::filesystem::rename(temporary, file, error);
  if (!stream.fail() && !error) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(file, " could not be written: other commands need --server ", cluster.server));
}

void ForgetCluster() {
  std::error_code error;
  std::filesystem::remove(RememberedServerFile(), error);
}

absl::StatusOr<ServerAddress> ResolveServer(absl::string_view flag) {
  if (!flag.empty()) return ParseServerAddress(flag);
  if (const std::string variable = Variable("STRATA_SERVER"); !variable.empty()) {
    return ParseServerAddress(variable);
  }
  const RememberedCluster last = ReadRememberedCluster();
  if (!last.server.empty()) return ParseServerAddress(last.server);
  return absl::UnavailableError(
      "no cluster is known — start one with `strata up`, or name one with --server ADDRESS");
}

}  // namespace strata::client
