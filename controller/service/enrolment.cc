#include "controller/service/enrolment.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/requests/pages.h"
#include "security/certificate.h"

namespace strata::controller {
namespace {

constexpr size_t kMostRequestBytes = size_t{16} << 10;

constexpr double kDefaultTtl = 3600;
constexpr double kLongestTtl = 7 * 86400;
constexpr int64_t kMostUses = 1'000'000;
constexpr size_t kLongestPattern = 200;
constexpr size_t kIdBytes = 8;
constexpr size_t kSecretBytes = 16;  // nobody guesses it
constexpr char kTokens[] = "tokens/";

google::protobuf::Timestamp TimestampOf(double unix_seconds) {
  google::protobuf::Timestamp time;
  time.set_seconds(static_cast<int64_t>(std::floor(unix_seconds)));
  return time;
}

// `[x` would match only itself, and `[]` nothing.
bool SetsAreClosed(const std::string& text) {
  for (size_t open = text.find('['); open != std::string::npos; open = text.find('[', open)) {
    const size_t close = text.find(']', open);
    if (close == std::string::npos || close == open + 1) return false;
    open = close;
  }
  return true;
}

bool IsPattern(const std::string& text) {
  return !text.empty() && text.size() <= kLongestPattern && SetsAreClosed(text) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string("-._*?[]!").find(c) != std::string::npos;
         });
}

// A renewal: the node itself asks, over the certificate that it has.
absl::Status CheckRenewal(const Core& core, const Caller& caller, const std::string& node) {
  const Identity& who = caller.identity;
  if (who.kind == Identity::Kind::kNobody) {
    return Refusal(absl::StatusCode::kUnauthenticated, "IDENTITY_REQUIRED",
                   "without a join token a node renews the certificate that it shows, and there is "
                   "none: strata token create makes a token");
  }
  if (who.ToString() != node) {
    return Refusal(absl::StatusCode::kPermissionDenied, "ROLE_REQUIRED",
                   absl::StrCat(who.ToString(), " may not renew the certificate of ", node));
  }
  if (core.HasNode(node)) return absl::OkStatus();
  return Refusal(absl::StatusCode::kPermissionDenied, "NODE_REMOVED",
                 absl::StrCat(node,
                              " is none of this cluster (any more): it needs a join token, "
                              "which strata token create makes"));
}

// Who has a token does not take the place of a node that is there.
absl::Status CheckNew(const Core& core, const Enrolment& enrolment, const std::string& node) {
  if (!core.HasNode(node) || core.join_tokens().IsRepetition(enrolment)) return absl::OkStatus();
  return Refusal(
      absl::StatusCode::kPermissionDenied, "NODE_EXISTS",
      absl::StrCat(node,
                   " is one of the cluster's nodes: give its agent its old folder, whose "
                   "certificate it renews, or strata delete node ",
                   ShortName(node), ", then join anew"));
}

}  // namespace

absl::Status Enroller::CheckAuthority() const {
  if (authority_ != nullptr) return absl::OkStatus();
  return Refusal(absl::StatusCode::kFailedPrecondition, "NO_AUTHORITY",
                 "this controller signs no certificates: start it with --tls-authority-key");
}

absl::Status Enroller::Enroll(Core& core, Effects& effects, const Caller& caller, double now,
                              const v1::EnrollNodeRequest& request,
                              v1::EnrollNodeResponse* response) const {
  const std::string node = NodeName(request.node());
  if (node.empty()) return InvalidField("node", "is no node's name");
  RETURN_IF_ERROR(CheckAuthority());
  if (request.signing_request().size() > kMostRequestBytes) {  // before anything is read of it
    return InvalidField("signing_request",
                        absl::StrCat("has more than ", kMostRequestBytes, " bytes"));
  }
  if (caller.identity.by == "none") {
    return Refusal(absl::StatusCode::kFailedPrecondition, "TLS_REQUIRED",
                   "tokens and certificates are for TLS connections only");
  }
  Enrolment enrolment;
  if (request.token().empty()) {
    RETURN_IF_ERROR(CheckRenewal(core, caller, node));
  } else {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(request.token(), absl::MaxSplits('.', 1));
    enrolment = {parts.first, security::Sha256(parts.second), ShortName(node),
                 security::RequestKeyDigest(request.signing_request()).value_or("")};
    RETURN_IF_ERROR(core.join_tokens().Check(enrolment, now));
    RETURN_IF_ERROR(CheckNew(core, enrolment, node));
  }
  const auto certificate =
      authority_->Sign(request.signing_request(), absl::StrCat("node/", ShortName(node)), now,
                       certificate_seconds_, core.removed_nodes().Since(node));
  if (absl::IsInvalidArgument(certificate.status())) {
    return InvalidField("signing_request", absl::StrCat("is ", certificate.status().message()));
  }
  RETURN_IF_ERROR(certificate.status());
  ASSIGN_OR_RETURN(const security::CertificateView view, security::ReadCertificate(*certificate));
  if (!enrolment.id.empty()) core.join_tokens().Count(enrolment, effects);
  response->set_certificate(*certificate);
  response->set_authority(authority_->root());
  *response->mutable_expire_time() = TimestampOf(view.end);
  return absl::OkStatus();
}

v1::JoinToken Enroller::Show(const v1::JoinTokenRecord& record) const {
  v1::JoinToken token;
  token.set_name(kTokens + record.id());
  token.set_nodes(record.nodes());
  *token.mutable_create_time() = record.create_time();
  *token.mutable_expire_time() = record.expire_time();
  token.set_uses_left(record.uses_left());
  token.set_creator(record.creator());
  if (authority_ != nullptr) token.set_authority_digest(authority_->key_digest());
  return token;
}

absl::Status Enroller::CreateToken(Core& core, Effects& effects, const Caller& caller, double now,
                                   const v1::CreateJoinTokenRequest& request,
                                   v1::JoinToken* token) const {
  if (!IsPattern(request.nodes())) {
    return InvalidField("nodes", "is no pattern of node names, such as n* or n[0-7]");
  }
  const double asked = static_cast<double>(request.ttl().seconds()) + 1e-9 * request.ttl().nanos();
  const double ttl = request.has_ttl() ? asked : kDefaultTtl;
  if (!(ttl >= 1 && ttl <= kLongestTtl)) {
    return InvalidField("ttl", "is not between 1 s and 7 days");
  }
  const int64_t uses = request.uses() == 0 ? 1 : request.uses();
  if (uses < 1 || uses > kMostUses) {
    return InvalidField("uses", absl::StrCat("is not between 1 and ", kMostUses));
  }
  RETURN_IF_ERROR(CheckAuthority());
  ASSIGN_OR_RETURN(const std::string id, security::RandomBytes(kIdBytes));
  ASSIGN_OR_RETURN(const std::string bytes, security::RandomBytes(kSecretBytes));
  const std::string secret = absl::BytesToHexString(bytes);
  v1::JoinTokenRecord record;
  record.set_id(absl::BytesToHexString(id));
  record.set_secret_digest(security::Sha256(secret));
  record.set_nodes(request.nodes());
  *record.mutable_create_time() = TimestampOf(now);
  *record.mutable_expire_time() = TimestampOf(now + ttl);
  record.set_uses_left(uses);
  record.set_creator(caller.identity.ToString());
  RETURN_IF_ERROR(core.join_tokens().Add(record, now, effects));
  *token = Show(record);
  token->set_token(absl::StrCat(record.id(), ".", secret));
  return absl::OkStatus();
}

absl::Status Enroller::ListTokens(const Core& core, const v1::ListJoinTokensRequest& request,
                                  v1::ListJoinTokensResponse* response) const {
  ASSIGN_OR_RETURN(const Page page, ReadPage("tokens", request.page_size(), request.page_token()));
  for (const v1::JoinTokenRecord* record : core.join_tokens().All()) {
    if (kTokens + record->id() <= page.after) continue;
    if (response->tokens_size() == page.size) {
      response->set_next_page_token(PageToken("tokens", response->tokens().rbegin()->name()));
      break;
    }
    *response->add_tokens() = Show(*record);
  }
  return absl::OkStatus();
}

absl::Status Enroller::DeleteToken(Core& core, Effects& effects,
                                   const v1::DeleteJoinTokenRequest& request) const {
  return core.join_tokens().Remove(std::string(absl::StripPrefix(request.name(), kTokens)),
                                   effects);
}

}  // namespace strata::controller
