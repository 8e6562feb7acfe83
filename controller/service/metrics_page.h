// GET /metrics: the page, and who may read it.
#ifndef STRATA_CONTROLLER_SERVICE_METRICS_PAGE_H_
#define STRATA_CONTROLLER_SERVICE_METRICS_PAGE_H_

#include <memory>
#include <string>
#include <utility>

#include "controller/metrics/metrics.h"
#include "controller/service/calls/calls.h"
#include "controller/service/transport/certificate_identities.h"
#include "controller/service/transport/page_server.h"

namespace strata::controller {

// For a PageServer's thread.
class MetricsPage {
 public:
  // `certificates`: whoever shows a certificate that these believe reads the page if its roles
  // allow it, and others are refused on record; null: whoever connects reads it. Borrowed: metrics.
  MetricsPage(const CallEnvironment& environment, const Metrics* metrics,
              std::unique_ptr<CertificateIdentities> certificates)
      : environment_(environment), metrics_(metrics), certificates_(std::move(certificates)) {}

  PageAnswer Answer(const PageRequest& request);

 private:
  // PermissionDenied, Unauthenticated; Unavailable: the policy is not loaded yet.
  absl::Status MayRead(Caller& caller, const std::string& chain);

  const CallEnvironment environment_;
  const Metrics* const metrics_;
  const std::unique_ptr<CertificateIdentities> certificates_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_METRICS_PAGE_H_
