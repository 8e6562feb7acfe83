#include "controller/service/metrics_page.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

constexpr char kReadPage[] = "GET /metrics";

int HttpCode(const absl::Status& refusal) {
  if (absl::IsPermissionDenied(refusal)) return 403;
  return absl::IsUnauthenticated(refusal) ? 401 : 503;
}

}  // namespace

absl::Status MetricsPage::MayRead(Caller& caller, const std::string& chain) {
  if (certificates_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(caller.identity, certificates_->Of(chain));
  const std::shared_ptr<const v1::Policy> policy = environment_.policy->Get();
  if (policy == nullptr) return absl::UnavailableError("the controller is starting");
  if (IsRevoked(caller.identity, *policy)) {
    return NotKnown(absl::StrCat(caller.identity.ToString(), " is revoked by the policy"));
  }
  return ToStatus(
      Rights(caller.identity, *policy, *environment_.standing_admins).Decide(kReadPage, {}));
}

PageAnswer MetricsPage::Answer(const PageRequest& request) {
  if (request.path != "/metrics") return {404, "there is no other page than /metrics\n"};
  Caller caller;
  caller.identity.by = "tls";  // until the certificate tells more
  caller.peer = request.peer;
  const absl::Status may = MayRead(caller, request.chain);
  if (may.ok()) return {200, metrics_->Text()};
  if (!absl::IsUnavailable(may)) AuditLater(environment_, {kReadPage}, caller, may);
  return {HttpCode(may), absl::StrCat(std::string(may.message()), "\n")};
}

}  // namespace strata::controller
