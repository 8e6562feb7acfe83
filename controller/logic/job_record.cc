#include "controller/logic/job_record.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace strata::controller {

std::string EtagOf(const v1::JobRecord& record) {
  return absl::StrCat("\"", record.resource_version(), "\"");
}

// The fields of both are the same on the wire; what a Job does not have falls away.
v1::Job ToJob(const v1::JobRecord& record) {
  v1::Job job;
  STRATA_CHECK(job.ParseFromString(record.SerializeAsString()));
  job.DiscardUnknownFields();
  job.set_etag(EtagOf(record));
  return job;
}

}  // namespace strata::controller
