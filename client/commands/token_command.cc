// token create, list, delete: what lets nodes enrol.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/api/errors.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/terminal/table.h"
#include "client/views/structured.h"
#include "security/certificate.h"

namespace strata::client {
namespace {

constexpr char kTokens[] = "tokens/";

std::string WhenText(const google::protobuf::Timestamp& time) {
  return security::FormatUnixTime(static_cast<double>(time.seconds()));
}

// What an agent is given.
std::string JoinText(const v1::JoinToken& token) {
  return absl::StrCat(token.token(), "@", token.authority_digest());
}

Json TokenJson(const v1::JoinToken& token) {
  Json json = {{"name", token.name()},
               {"nodes", token.nodes()},
               {"uses_left", token.uses_left()},
               {"creator", token.creator()},
               {"create_time", WhenText(token.create_time())},
               {"expire_time", WhenText(token.expire_time())},
               {"authority_digest", token.authority_digest()}};
  if (!token.token().empty()) json["join"] = JoinText(token);
  return json;
}

int CreateToken(ApiClient& client, const Arguments& arguments, Terminal& terminal) {
  v1::CreateJoinTokenRequest request;
  request.set_nodes(arguments.Text("--nodes", "*"));
  request.set_uses(arguments.Count("--uses").value_or(1));
  if (arguments.Has("--ttl")) {
    request.mutable_ttl()->set_seconds(static_cast<int64_t>(*arguments.Seconds("--ttl")));
  }
  const absl::StatusOr<v1::JoinToken> token = client.CreateJoinToken(request);
  if (!token.ok()) {
    return FailCall(
        AtFlags(token.status(), {{"nodes", "--nodes"}, {"ttl", "--ttl"}, {"uses", "--uses"}}),
        terminal);
  }
  const std::string output = arguments.Text("--output", "table");
  terminal.Out(IsStructured(output) ? ToText(TokenJson(*token), output)
               : output == "name"   ? token->name() + "\n"
                                    : JoinText(*token) + "\n");
  terminal.Say(absl::StrCat("for ", token->uses_left(),
                            token->uses_left() == 1 ? " node" : " nodes", " of ", token->nodes(),
                            " until ", WhenText(token->expire_time()),
                            "; next: strata-worker --join TOKEN …; it is shown once"));
  return kExitDone;
}

int ListTokens(ApiClient& client, const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<std::vector<v1::JoinToken>> tokens = client.ListJoinTokens();
  if (!tokens.ok()) return FailCall(tokens.status(), terminal);
  const std::string output = arguments.Text("--output", "table");
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const v1::JoinToken& token : *tokens) {
    list.push_back(TokenJson(token));
    rows.push_back({token.name().substr(sizeof(kTokens) - 1), token.nodes(),
                    absl::StrCat(token.uses_left()), WhenText(token.expire_time()),
                    token.creator()});
    if (output == "name") terminal.Out(token.name() + "\n");
  }
  if (IsStructured(output)) {
    terminal.Out(ToText(list, output));
  } else if (output == "table") {
    terminal.Out(FormatTable({"TOKEN", "NODES", "USES LEFT", "UNTIL", "CREATOR"}, rows));
  }
  return kExitDone;
}

int DeleteToken(ApiClient& client, const std::string& typed, Terminal& terminal) {
  const std::string name = absl::StartsWith(typed, kTokens) ? typed : kTokens + typed;
  const absl::Status deleted = client.DeleteJoinToken(name);
  if (!deleted.ok()) return FailCall(deleted, terminal);
  terminal.Say(absl::StrCat(name, " enrols nobody any more"));
  return kExitDone;
}

int Token(const Arguments& arguments, Terminal& terminal) {
  const std::string& verb = arguments.positional()[0];
  const bool names_one = arguments.positional().size() == 2;
  const bool known =
      (verb == "delete" && names_one) || ((verb == "create" || verb == "list") && !names_one);
  if (!known) {
    return Fail(absl::InvalidArgumentError(
                    "write strata token create, strata token list or strata token delete ID"),
                terminal);
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  if (verb == "create") return CreateToken(*client, arguments, terminal);
  if (verb == "list") return ListTokens(*client, arguments, terminal);
  return DeleteToken(*client, arguments.positional()[1], terminal);
}

}  // namespace

Command TokenCommand() {
  constexpr auto kText = Flag::Kind::kText;
  return ClusterCommand(
      "token", "create|list|delete [ID]",
      "Join tokens: what lets nodes without a certificate enrol", {"create|list|delete"}, 2,
      {{"--nodes", kText, "PATTERN", "create: nodes that may use it, such as n* or n[0-7] (*)"},
       {"--ttl", Flag::Kind::kTime, "TIME", "create: how long, such as 30m; at most 168h (1h)", "",
        1},
       {"--uses", Flag::Kind::kCount, "N", "create: nodes that may enrol with it (1)", "", 1, 1e6}},
      Token);
}

}  // namespace strata::client
