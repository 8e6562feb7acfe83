#include "controller/service/transport/certificate_identities.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/clock.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

// users/NAME of user/NAME, and so on.
absl::StatusOr<Identity> IdentityOf(const security::SpiffeId& id) {
  absl::string_view name = id.path;
  std::string text = id.path;
  if (absl::ConsumePrefix(&name, "user/")) text = absl::StrCat("users/", name);
  if (absl::ConsumePrefix(&name, "node/")) text = absl::StrCat("nodes/", name);
  return ParseIdentity(text, "tls");
}

}  // namespace

absl::Status NotKnown(absl::string_view why) {
  return Refusal(absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED", std::string(why));
}

absl::StatusOr<Identity> CertificateIdentities::Of(const std::string& chain) {
  const auto view = verifier_.Verify(chain, common::WallSeconds());
  if (!view.ok()) return NotKnown(view.status().message());
  if (!cluster_.empty() && view->id.cluster != cluster_) {
    return NotKnown(absl::StrCat("the certificate of ", view->id.ToString(),
                                 " is of another cluster than ", cluster_));
  }
  absl::StatusOr<Identity> identity = IdentityOf(view->id);
  if (!identity.ok()) return NotKnown(identity.status().message());
  identity->certificate = {view->serial, view->begin, view->end};
  return identity;
}

}  // namespace strata::controller
